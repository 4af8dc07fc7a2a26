"""What our optimisers share: a step that walks over the vectors in blocks.

An optimiser gives the vectors that it keeps for a parameter (`fresh`) and a function that moves one block
(`kernel`); everything else that PyTorch's users expect of an optimiser is here. A block goes through all of a step's
operations before the next one is touched, and no temporary is longer than a block.

Half-precision parameters are moved in single precision and keep their vectors in it: an average over a
thousand steps cannot be held in eight bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from posterity.core.errors import UsageError

BLOCK = 2**18  # elements, a megabyte a vector: measured, the calls for smaller ones cost more than the cache saves

Group = dict[str, Any]
Kernel = Callable[..., None]


class BlockOptimizer(Optimizer):
    """An optimiser that moves each element by itself, from its gradient and its entries in a few vectors."""

    def __init__(self, params: ParamsT, defaults: Group) -> None:
        super().__init__(params, defaults)

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """The vectors kept for a parameter, before its first step; `like` has their shape and dtype."""
        raise NotImplementedError

    def kernel(self, group: Group, t: int) -> Kernel:
        """The function that makes step `t` on a block: (weights, grad, *vectors in the order of `fresh`, scratch)."""
        raise NotImplementedError

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """What multiplied the average gradient in the last step, of the parameter's shape or one for all."""
        raise NotImplementedError

    def check(self, group: Group) -> None:
        """Refuse settings that make no sense."""
        raise NotImplementedError

    def prepare(self, ready: list[tuple[Tensor, Group]]) -> None:
        """Look at all gradients before any parameter moves."""

    @property
    def shared(self) -> dict[str, Any]:
        """State that belongs to no one parameter; replaced as a whole, so that what was saved stays as it was."""
        return self.state.get("shared", {})  # type: ignore[call-overload, no-any-return]

    @shared.setter
    def shared(self, shared: dict[str, Any]) -> None:
        self.state["shared"] = shared  # type: ignore[index]

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with settings of their own."""
        merged = {**self.defaults, **param_group}
        check_not_negative("learning rate", merged["lr"])
        self.check(merged)
        super().add_param_group(param_group)
        self.param_groups[-1].setdefault("reference_lr", float(merged["lr"]))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; with a `closure`, call it first and return its loss."""
        loss = closed(closure)
        ready = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        for p, group in ready:
            self.check_gradient(p)
            self.begin(p, group)
        self.prepare(ready)
        for p, group in ready:
            self.state[p]["step"] += 1
            self.move(p, group)
        return loss

    def move(self, p: Tensor, group: Group) -> None:
        """The step of one parameter, block by block."""
        state = self.state[p]
        vectors = [value for value in state.values() if isinstance(value, Tensor)]
        assert p.grad is not None
        walk(self.kernel(group, state["step"]), p, p.grad, *vectors, maximize=group.get("maximize", False))

    def begin(self, p: Tensor, group: Group) -> None:
        """Make the parameter's vectors if it has none."""
        if not self.state[p]:
            like = torch.empty_like(p, dtype=wide(p.dtype))
            self.state[p].update(step=0, **self.fresh(like, group))

    def check_gradient(self, p: Tensor) -> None:
        """Refuse sparse and complex gradients."""
        assert p.grad is not None
        if p.grad.layout != torch.strided or p.grad.is_complex():
            kind = "complex" if p.grad.is_complex() else "sparse"
            raise UsageError(
                f"{type(self).__name__} cannot use the {kind} gradient of a parameter of shape {tuple(p.shape)}; "
                f"it needs real, dense ones"
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        super().load_state_dict(state_dict)
        # PyTorch casts vectors to the parameters' dtype, and shares them with their source where it is the same.
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(numbers, parameters, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, Tensor):
                    self.state[p][key] = value.to(p.device, wide(p.dtype), copy=True)


def closed(closure: Callable[[], Any] | None) -> Any:
    """The loss that a step's closure gives, if there is one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def walk(kernel: Kernel, p: Tensor, grad: Tensor, *vectors: Tensor, maximize: bool = False) -> None:
    """Apply `kernel` to the parameter `p`, its gradient and its `vectors`, block by block."""
    dtype = wide(p.dtype)
    for weights, descent, *rest in blocks(p.detach(), grad, *vectors):
        moving, descent = weights.to(dtype), descent.to(dtype)  # the blocks themselves in single and double precision
        kernel(moving, -descent if maximize else descent, *rest, torch.empty_like(moving))
        if moving is not weights:
            weights.copy_(moving)


def blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Corresponding blocks of the tensors; the tensors themselves where their elements lie in another order."""
    if all(tensor.is_contiguous() for tensor in tensors):
        yield from zip(*(tensor.view(-1).split(BLOCK) for tensor in tensors), strict=True)
    else:
        yield tensors


def wide(dtype: torch.dtype) -> torch.dtype:
    """The precision in which parameters of `dtype` are moved."""
    return dtype if dtype.itemsize >= 4 else torch.float32


def schedule_ratio(group: Group) -> float:
    """The group's rate over the one it was built with; a group built with rate 0 takes its first positive one."""
    if not group["reference_lr"]:
        group["reference_lr"] = float(group["lr"])
    return float(group["lr"]) / group["reference_lr"] if group["reference_lr"] else 0.0


def check_not_negative(name: str, value: float) -> None:
    """Refuse negative numbers and NaN."""
    if not value >= 0:
        raise UsageError(f"the {name} must not be negative, got {value}")


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a positive, finite number."""
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} must be positive and finite, got {value}")


def check_betas(**betas: float) -> None:
    """Refuse averaging factors outside [0, 1)."""
    for name, value in betas.items():
        if not 0 <= value < 1:
            raise UsageError(f"{name} must lie in [0, 1), got {value}")
