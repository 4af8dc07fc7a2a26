"""Plain networks: nothing Bayesian in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from posterity.core.errors import UsageError, unknown_name
from posterity.models.cnn import cnn
from posterity.models.lenet import lenet5
from posterity.models.mlp import mlp
from posterity.models.perceptron import perceptron

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet5": lenet5,
    "perceptron": perceptron,
    "cnn": cnn,
}


def build_model(name: str, input_shape: Sequence[int], num_outputs: int, **options: Any) -> nn.Module:
    """A network by its name."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    try:
        return MODELS[name](input_shape, num_outputs, **options)
    except TypeError as error:
        raise UsageError(f"model '{name}' does not take these options: {error}") from error


__all__ = ["MODELS", "build_model", "cnn", "lenet5", "mlp", "perceptron"]
