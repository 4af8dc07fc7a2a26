"""Optimisers by name, in the form that is fastest: one pass over a flat vector where PyTorch has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch

from posterity.core.errors import UsageError, unknown_name
from posterity.core.options import Option, check_options, options_of
from posterity.optim.adabayes import AdaBayes, AdaBayesFP
from posterity.optim.adabound import AdaBound
from posterity.optim.yellowfin import YellowFin

# A step of Adam's has the size of its rate, whatever the gradient's, and rho has further to go than a mean.
SD_RATE = 0.1


@dataclass(frozen=True)
class Recipe:
    """An optimiser's class, its default rate, the settings that differ from the class's own, those it must be given.

    A `joint` one tunes itself from the gradients of all groups together. `lr_sd` is its rate for standard deviations
    where that is another.
    """

    make: Callable[..., torch.optim.Optimizer]
    lr: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    joint: bool = False
    lr_sd: float | None = None


def _own(make: Callable[..., torch.optim.Optimizer], *needs: str, **settings: Any) -> Recipe:
    """One of ours, with the default rate that its class has."""
    return Recipe(make, signature(make).parameters["lr"].default, settings, needs)


OPTIMIZERS: dict[str, Recipe] = {
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
}


def optimizer_options(name: str) -> dict[str, Any]:
    """What the optimiser `name` can be told beside its parameters and its rate, with the defaults."""
    return {key: option.default for key, option in _known(name).items()}


def check_optimizer_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown optimiser, and options that it does not take or that are of another kind than it takes."""
    check_options(f"optimizer '{name}'", options, _known(name))


def _known(name: str) -> dict[str, Option]:
    if name not in OPTIMIZERS:
        raise unknown_name("optimizer", name, OPTIMIZERS)
    recipe = OPTIMIZERS[name]
    known = options_of(recipe.make, beside=("self", "params", "lr"))
    return {key: option._replace(default=recipe.settings.get(key, option.default)) for key, option in known.items()}


def build_optimizer(
    name: str, groups: Iterable[dict[str, Any]], *, lr: float | None = None, **settings: Any
) -> torch.optim.Optimizer:
    """The optimiser `name` over parameter `groups`; `lr` None takes its default rate."""
    if settings or name not in OPTIMIZERS:
        check_optimizer_options(name, settings)
    recipe = OPTIMIZERS[name]
    rate = recipe.lr if lr is None else lr
    return construct(name, recipe.make, groups, lr=rate, settings={**recipe.settings, **settings})


def construct(
    name: str,
    make: Callable[..., torch.optim.Optimizer],
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
        return make(list(params), **rate, **settings)
    except (TypeError, ValueError) as error:
        raise UsageError(f"optimizer '{name}': {error}") from error
