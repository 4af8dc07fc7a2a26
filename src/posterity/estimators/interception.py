"""Linear maps and convolutions of a running network are seen, and made random, as they are called.

One TorchFunctionMode sees every call of a torch function. Each Bayesian weight's slot in the network holds the tensor
of its *sample*, w = mean + sd eps, which is still unfilled (NaN). Then

    linear, conv, conv_transpose with that very tensor as weight (and bias)   ->  the rule's own random output
    any other function that is given it                                       ->  it is filled first: `sample`

so that a weight is used by the rule, or sampled; its mean is nowhere to be found in the network. What the mode cannot
see (code that is not Python's) finds NaN: an error, not a silent mistake. A weight that was transposed, reshaped or
parametrised before the call is another tensor: it was filled then.

A weight's uses in one pass must agree: one that is used more than once (tied weights, a module called again) is
sampled for all of them. That is known when the pass is over: it is then taken back and run again, once for a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from posterity.core.randomness import NoiseSource
from posterity.estimators.weights import PassWeights

# Function: how many of its input's last axes belong to one example (features, or channels and positions).
MAPS: dict[Callable[..., Tensor], int] = {
    F.linear: 1,
    F.conv1d: 2,
    F.conv2d: 3,
    F.conv3d: 4,
    F.conv_transpose1d: 2,
    F.conv_transpose2d: 3,
    F.conv_transpose3d: 4,
}
OPERANDS = ("input", "weight", "bias")  # the first three arguments of all of them
# Asking a tensor these does not use its values.
_PROPERTIES = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "is_nested", "is_leaf", "layout")
METADATA: frozenset[Any] = frozenset(
    [getattr(Tensor, name).__get__ for name in _PROPERTIES]
    + [Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.stride, Tensor.__len__]
)


@dataclass(frozen=True)
class LinearMap:
    """One intercepted call, without its input, weight and bias: linear in the input and in the weight."""

    function: Callable[..., Tensor]
    rest: tuple[Any, ...]
    options: Mapping[str, Any]

    def __call__(self, a: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The map of `a` with this weight and bias."""
        return self.function(a, weight, bias, *self.rest, **self.options)

    @property
    def positions(self) -> int:
        """The number of axes over which a convolution's weights are shared: 0 for a linear map."""
        return MAPS[self.function] - 1

    def examples(self, a: Tensor) -> tuple[int, ...]:
        """The axes of `a` before the features or channels."""
        return tuple(a.shape[: a.dim() - MAPS[self.function]])


@dataclass(frozen=True)
class Moments:
    """A Bayesian weight in the form that the rule wants: its mean, and its variance or its perturbation."""

    mean: Tensor
    spread: Tensor


class Rule(ABC):
    """How an intercepted linear map is made random."""

    perturbs: bool  # whether the spread is the perturbation sd eps, else the variance sd^2

    @abstractmethod
    def apply(
        self, linear: LinearMap, a: Tensor, weight: Moments, bias: Moments | Tensor | None, noise: NoiseSource
    ) -> Tensor:
        """The random output of `linear` for the input `a`; a bias that is a tensor is not Bayesian."""


class Interception(TorchFunctionMode):
    """One pass: which weights the rule used, and which were sampled.

    `sampled` are the places in the layout of the weights that the rule must leave alone.
    """

    def __init__(self, rule: Rule, weights: PassWeights, noise: NoiseSource, sampled: set[int]) -> None:
        super().__init__()
        self.rule, self.weights, self.noise = rule, weights, noise
        self.places = {id(tensor): place for place, tensor in enumerate(weights.samples)}
        self.sampled = sampled
        self.mapped: Counter[int] = Counter()

    @property
    def conflicts(self) -> set[int]:
        """Weights whose uses disagreed: the rule's more than once, or the rule's beside a sample."""
        return {place for place, uses in self.mapped.items() if uses > 1 or self.weights.filled[place]}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The rule's output for a linear map of a Bayesian weight; any other function as it is, on samples."""
        kwargs = kwargs or {}
        if func in MAPS:
            output = self._mapped(func, args, kwargs)
            if output is not None:
                return output
        elif func in METADATA:
            return func(*args, **kwargs)
        if _closed(func):
            self._fill((args, kwargs))
        else:  # somebody's own function may use weights that it was not given: it runs unseen
            self._fill(self.weights.samples)
        return func(*args, **kwargs)

    def _mapped(self, func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
        given: dict[str, Any] = {**dict(zip(OPERANDS, args, strict=False)), **kwargs}
        a, weight, bias = given["input"], given["weight"], given.get("bias")
        place = self.places.get(id(weight))
        if place is None or place in self.sampled:
            return None
        options = {n: v for n, v in kwargs.items() if n not in OPERANDS}
        beside = self.places.get(id(bias))
        self._fill(a)
        if beside is not None and beside in self.sampled:
            self._fill(bias)
            beside = None
        self.mapped.update([place] if beside is None else [place, beside])
        linear = LinearMap(func, args[len(OPERANDS) :], options)
        return self.rule.apply(
            linear, a, self._moments(place), bias if beside is None else self._moments(beside), self.noise
        )

    def _moments(self, place: int) -> Moments:
        return Moments(self.weights.means[place], self.weights.spreads[place])

    def _fill(self, given: Any) -> None:
        for tensor in _tensors(given):
            place = self.places.get(id(tensor))
            if place is not None:
                self.weights.fill(place, self.noise)


def _tensors(given: Any) -> Iterator[Tensor]:
    """All tensors in nested arguments."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, (list, tuple)):
        for part in given:
            yield from _tensors(part)
    elif isinstance(given, Mapping):
        for part in given.values():
            yield from _tensors(part)


def _closed(func: Callable[..., Any]) -> bool:
    """Whether `func` is PyTorch's own, which uses no tensors but those it is given."""
    return (getattr(func, "__module__", None) or "torch").partition(".")[0] in ("torch", "builtins")
