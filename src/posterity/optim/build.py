"""Optimisers by name, in the form that is fastest: one pass over a flat vector where PyTorch has one.

Others are given as a class or a function of parameter groups, or as functools.partial of one, and are known from then
on by where they stand, such as torch.optim:NAdam; those of torch.optim are found by such a name at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch

from posterity.core.errors import UsageError
from posterity.core.options import Option, check_options, options_of
from posterity.core.registry import Registry
from posterity.optim.adabayes import AdaBayes, AdaBayesFP
from posterity.optim.adabound import AdaBound
from posterity.optim.muon import Muon
from posterity.optim.yellowfin import YellowFin

PYTORCH = "torch.optim:"
PARTS = "parts"
Make = Callable[..., torch.optim.Optimizer]

# A step of Adam's has the size of its rate, whatever the gradient's, and rho has further to go than a mean.
SD_RATE = 0.1


@dataclass(frozen=True)
class Recipe:
    """An optimiser's class, its default rate, the settings that differ from the class's own, those it must be given.

    Without a rate it is what the class makes of none.
    A `joint` one tunes itself from the gradients of all groups together, a `shaped` one takes the shapes of what is in
    a flat parameter (`parts`), which its network says and no user. `lr_sd` is its rate for standard deviations
    where that is another.
    """

    make: Make
    lr: float | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    joint: bool = False
    shaped: bool = False
    lr_sd: float | None = None


def _own(make: Make, *needs: str, **settings: Any) -> Recipe:
    """One of ours, with the default rate that its class has."""
    return Recipe(make, signature(make).parameters["lr"].default, settings, needs)


def recipe_of(name: str, make: Any) -> Recipe:
    """The recipe of an optimiser from outside: a recipe, a class or a function."""
    if isinstance(make, Recipe):
        return make
    if not callable(make):
        raise UsageError(f"the optimizer '{name}' must be a class or a function of parameter groups, not {make!r}")
    rate = _parameters(make).get("lr")
    default = None if rate is None or rate.default is Parameter.empty else rate.default
    return Recipe(make, float(default) if isinstance(default, (int, float)) else None)


class _Optimizers(Registry[Recipe]):
    """Those of torch.optim are known by where they stand."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or _of_pytorch(name) is not None

    def __missing__(self, name: str) -> Recipe:
        make = _of_pytorch(name)
        if make is None:
            return super().__missing__(name)
        self[name] = recipe_of(name, make)
        return self[name]


_OWN = {
    "sgd": Recipe(torch.optim.SGD, 1e-2, {"momentum": 0.9, "fused": True}),
    "adam": Recipe(torch.optim.Adam, 3e-3, {"fused": True}, lr_sd=SD_RATE),
    "amsgrad": Recipe(torch.optim.Adam, 3e-3, {"fused": True, "amsgrad": True}, lr_sd=SD_RATE),
    "adamw": Recipe(torch.optim.AdamW, 3e-3, {"fused": True}, lr_sd=SD_RATE),
    "adagrad": Recipe(torch.optim.Adagrad, 1e-2, {"fused": True}),
    "rmsprop": Recipe(torch.optim.RMSprop, 1e-3),
    "radam": Recipe(torch.optim.RAdam, 3e-3, lr_sd=SD_RATE),
    "adabound": _own(AdaBound),
    "amsbound": _own(AdaBound, amsbound=True),
    "yellowfin": replace(_own(YellowFin), joint=True),
    "adabayes": _own(AdaBayes, "batch_size"),
    "adabayes-fp": Recipe(AdaBayesFP, 1e-2, {"lr_sgd": 0.5}),  # measured: benchmarks/defaults.py
    "muon": replace(_own(Muon), shaped=True),
}
OPTIMIZERS = _Optimizers("optimizer", "optimizers", _OWN, recipe_of)


def spelled_out(make: Any) -> tuple[str, dict[str, Any]]:
    """The name that a class, a function or a partial of one is known by from now on, and its keywords."""
    given: dict[str, Any] = {}
    if isinstance(make, partial):
        if make.args:
            raise UsageError(f"an optimizer's options are given by name, but {make} has some without")
        make, given = make.func, dict(make.keywords)
    name = f"{make.__module__}:{make.__qualname__}" if hasattr(make, "__qualname__") else f"{type(make).__name__}()"
    known = PYTORCH + name.rpartition(":")[2]
    if _of_pytorch(known) is make:
        return known, given
    OPTIMIZERS.register(name, make)
    return name, given


def _of_pytorch(name: object) -> Make | None:
    if not (isinstance(name, str) and name.startswith(PYTORCH)):
        return None
    found = getattr(torch.optim, name.removeprefix(PYTORCH), None)
    return found if isinstance(found, type) and issubclass(found, torch.optim.Optimizer) else None


def _parameters(make: Make) -> Mapping[str, Parameter]:
    return signature(make).parameters


def _takes_any(make: Make) -> bool:
    return any(p.kind is Parameter.VAR_KEYWORD for p in _parameters(make).values())


def optimizer_options(name: str) -> dict[str, Any]:
    """What the optimiser `name` can be told beside its parameters and its rate, with the defaults."""
    return {key: option.default for key, option in _known(name).items()}


def check_optimizer_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown optimiser, and options that it does not take or that are of another kind than it takes."""
    known = _known(name)
    if not _takes_any(OPTIMIZERS[name].make):
        check_options(f"optimizer '{name}'", options, known)


def _known(name: str) -> dict[str, Option]:
    recipe = OPTIMIZERS.named(name)
    known = options_of(recipe.make, beside=("self", "params", "lr", PARTS))
    return {key: option._replace(default=recipe.settings.get(key, option.default)) for key, option in known.items()}


def build_optimizer(
    name: str, groups: Iterable[dict[str, Any]], *, lr: float | None = None, **settings: Any
) -> torch.optim.Optimizer:
    """The optimiser `name` over parameter `groups`; `lr` None takes its default rate."""
    recipe = OPTIMIZERS.named(name)
    if options := {key: value for key, value in settings.items() if key != PARTS}:
        check_optimizer_options(name, options)
    rate = recipe.lr if lr is None else lr
    if rate is not None and "lr" not in _parameters(recipe.make) and not _takes_any(recipe.make):
        groups, rate = [{**group, "lr": rate} for group in groups], None
    return construct(name, recipe.make, groups, lr=rate, settings={**recipe.settings, **settings})


def construct(
    name: str,
    make: Make,
    params: Iterable[Any],
    *,
    lr: float | None,
    settings: Mapping[str, Any],
) -> torch.optim.Optimizer:
    """The optimiser that `make` builds, its refusals as errors for people; `lr` None takes the default of `make`."""
    if lr is not None and not lr > 0:
        raise UsageError(f"the learning rate must be positive, not {lr}")
    rate = {} if lr is None else {"lr": lr}
    try:
        made = make(list(params), **rate, **settings)
    except (TypeError, ValueError) as error:
        raise UsageError(f"optimizer '{name}': {error}") from error
    if not isinstance(made, torch.optim.Optimizer):
        raise UsageError(f"'{name}' must make a torch.optim.Optimizer of parameter groups, not {type(made).__name__}")
    if any(p.default is Parameter.empty for p in signature(made.step).parameters.values()):
        raise UsageError(f"optimizer '{name}' evaluates the loss itself in its step, several times: take another")
    return made
