"""Host: a module tree with slots for its Bayesian weights, filled for a pass and emptied after it.

An empty slot cannot be used by accident: there is no mean in it. Filling changes the modules, so that a host serves one
pass at a time. Whoever must not disturb another pass (a prediction, in any thread) works on a `private` host: the same
tree of new module objects, which share the deterministic parameters and have all else that a pass may change for
themselves. No weight is copied, so that it costs microseconds a module.
"""

from __future__ import annotations

import copy
import functools
import re
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

# Most of what a module holds: nothing to copy, or the empty dictionaries of its hooks.
ATOMS = frozenset({type(None), bool, int, float, str, types.FunctionType})
MACHINERY = frozenset(vars(nn.Module()))
CONTAINERS = frozenset({dict, OrderedDict, list, set})
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function that a module prints


def printed(model: nn.Module) -> list[str]:
    """The modules as they print themselves, a line each: the same for every copy."""
    return ADDRESS.sub("", repr(model)).splitlines()


class Host:
    """A network and, for each Bayesian weight by name, every (module, attribute) that holds it."""

    def __init__(self, model: nn.Module, places: Mapping[str, list[tuple[nn.Module, str]]]) -> None:
        self.model = model
        self.places = places
        self._recurrent = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
        self.empty()

    @classmethod
    def of(cls, model: nn.Module, names: Iterable[str]) -> Host:
        """The host of the parameters of `model` called `names`, which are removed from it."""
        parameters, chosen = dict(model.named_parameters()), list(names)
        found = slots(model, [parameters[name] for name in chosen])
        return cls(model, dict(zip(chosen, found, strict=True)))

    def call(self, views: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """One pass with the given weights by name."""
        with self.filled(views):
            return self.model(*args, **kwargs)

    @contextmanager
    def filled(self, views: Mapping[str, Tensor]) -> Iterator[None]:
        """The network with the given weights by name in its slots."""
        try:
            for name, places in self.places.items():
                for module, attribute in places:
                    module._parameters[attribute] = views[name]  # type: ignore[assignment]
            self._refresh_recurrent()
            yield
        finally:
            self.empty()

    def empty(self) -> None:
        """No weights in the slots."""
        for places in self.places.values():
            for module, attribute in places:
                module._parameters[attribute] = None
        self._refresh_recurrent()

    def _refresh_recurrent(self) -> None:
        # Recurrent modules keep a list of their weights beside the slots.
        for module in self._recurrent:
            module._flat_weights = [getattr(module, n) for n in module._flat_weights_names]

    def private(self) -> Host:
        """The same network in eval mode for one user alone, with empty slots.

        Deterministic parameters are shared, buffers cloned, hooks kept. It may be taken while a pass is under way.
        """
        copies = _Copies(self.places)
        model = copies.module(self.model)
        model.eval()
        places = {n: [(copies.module(m), attribute) for m, attribute in p] for n, p in self.places.items()}
        return Host(model, places)


class _Copies:
    """Copies of modules and of what they hold, each made once: what was shared stays shared."""

    def __init__(self, places: Mapping[str, list[tuple[nn.Module, str]]]) -> None:
        self._slots = {(id(module), attribute) for each in places.values() for module, attribute in each}
        # By the original's id. The original is kept as well: an id is only unique among the living.
        self._made: dict[int, tuple[Any, Any]] = {}

    def module(self, original: nn.Module) -> nn.Module:
        """A new object of the same class, without its `__init__`."""
        copied: nn.Module
        if id(original) in self._made:
            copied = self._made[id(original)][1]
            return copied
        copied = self._keep(original, nn.Module.__new__(type(original)))
        state = original.__dict__.copy()  # at once: another thread may be in the middle of a pass
        state["_parameters"] = self._parameters(original, state["_parameters"].copy())
        for name, value in state.items():
            kind = type(value)
            if kind in ATOMS or name in ("_parameters", "_flat_weights"):  # the host refreshes the latter
                continue
            unused = name in MACHINERY and kind in CONTAINERS and not value
            state[name] = kind() if unused else self._value(value)
        copied.__dict__.update(state)
        return copied

    def _keep(self, original: Any, copied: Any) -> Any:
        self._made[id(original)] = original, copied
        return copied

    def _parameters(self, module: nn.Module, held: dict[str, Any]) -> dict[str, Any]:
        own = {n: None if (id(module), n) in self._slots else p for n, p in held.items()}
        # An embedding with max_norm rescales its rows as it is used: then it needs rows of its own.
        if vars(module).get("max_norm") is not None:
            own = {n: None if p is None else p.detach().clone() for n, p in own.items()}
        return own

    def _value(self, value: Any) -> Any:
        """What a copy holds in the place of `value`: modules, tensors and containers are mapped, the rest is shared."""
        if type(value) in ATOMS:
            return value
        if isinstance(value, nn.Module):
            return self.module(value)
        if isinstance(value, Tensor):
            return value if isinstance(value, nn.Parameter) else self._tensor(value)
        if isinstance(value, (dict, list, set)):
            return self._container(value)
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, types.MethodType):  # of a module that is copied: bound to the copy
            return types.MethodType(value.__func__, self._value(value.__self__))
        if isinstance(value, functools.partial):
            keywords = self._value(value.keywords)
            return functools.partial(self._value(value.func), *self._value(value.args), **keywords)
        return value

    def _container(self, value: Any) -> Any:
        if id(value) in self._made:
            return self._made[id(value)][1]
        # At once, as above; a user's own kind of dictionary remains what it is.
        copied = self._keep(value, value.copy() if type(value) in CONTAINERS else copy.copy(value))
        if isinstance(copied, dict):
            copied.update({key: self._value(part) for key, part in copied.items()})
        elif isinstance(copied, list):
            copied[:] = [self._value(part) for part in copied]
        elif any(isinstance(part, nn.Module) for part in copied):
            return self._keep(value, {self._value(part) for part in copied})
        return copied

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        parts = [self._value(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)

    def _tensor(self, tensor: Tensor) -> Tensor:
        copied: Tensor
        if id(tensor) in self._made:
            copied = self._made[id(tensor)][1]
            return copied
        try:
            copied = self._keep(tensor, tensor.detach().clone())
            return copied
        except RuntimeError:  # a left-over of another thread's vmap, which only that thread can read
            return tensor


def frozen_parts(model: nn.Module, trained: Iterable[nn.Module] = ()) -> list[nn.Module]:
    """The largest parts of `model` with parameters of which none is trained, nor is any module of them in `trained`."""
    live = {id(module) for module in trained}
    found: list[nn.Module] = []

    def visit(module: nn.Module) -> tuple[bool, bool]:
        """Whether it has parameters, and whether one of them is trained."""
        own = [p for p in module._parameters.values() if p is not None]
        has, moves = bool(own) or id(module) in live, id(module) in live or any(p.requires_grad for p in own)
        before = len(found)
        for child in module._modules.values():
            if child is not None:
                child_has, child_moves = visit(child)
                has, moves = has or child_has, moves or child_moves
        if has and not moves:
            found[before:] = [module]  # instead of its parts
        return has, moves

    visit(model)
    return found


def slots(model: nn.Module, parameters: Iterable[nn.Parameter]) -> list[list[tuple[nn.Module, str]]]:
    """For each parameter every (module, attribute) that holds it."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for attribute, parameter in module._parameters.items():
            places.setdefault(id(parameter), []).append((module, attribute))
    return [places[id(p)] for p in parameters]
