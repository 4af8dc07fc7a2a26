"""Plain networks: nothing Bayesian in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from torch import nn

from posterity.core.errors import UsageError, unknown_name
from posterity.models.cnn import cnn
from posterity.models.lenet import lenet5
from posterity.models.mean_field_net import MeanFieldNet, mean_field
from posterity.models.mlp import mlp
from posterity.models.perceptron import perceptron

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet5": lenet5,
    "perceptron": perceptron,
    "cnn": cnn,
    "mean-field": mean_field,
}


def build_model(name: str, input_shape: Sequence[int], num_outputs: int, **options: Any) -> nn.Module:
    """A network by its name."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    known = list(signature(MODELS[name]).parameters)[2:]
    for option in options:
        if option not in known:
            raise UsageError(f"model '{name}' has no option '{option}'; it has {', '.join(known) or 'none'}")
    return MODELS[name](input_shape, num_outputs, **options)


__all__ = ["MODELS", "MeanFieldNet", "build_model", "cnn", "lenet5", "mean_field", "mlp", "perceptron"]
