"""Multilayer perceptron: linear maps with an activation between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import nn

from posterity.core.errors import UsageError, unknown_name

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU}


def mlp(
    input_shape: Sequence[int],
    num_outputs: int,
    *,
    hidden: Sequence[int] = (400, 400),
    activation: str = "relu",
) -> nn.Sequential:
    """Inputs of any shape, flattened, through `hidden` layers to `num_outputs`."""
    if activation not in ACTIVATIONS:
        raise unknown_name("activation", activation, ACTIVATIONS)
    if any(width < 1 for width in hidden):
        raise UsageError(f"hidden layers must have at least one unit, not {tuple(hidden)}")
    layers: list[nn.Module] = [nn.Flatten()]
    widths = [prod(input_shape), *hidden]
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], num_outputs))
