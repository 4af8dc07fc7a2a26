"""The AND perceptron of source 000, section 2.4: one ReLU unit in front of a Bernoulli logit.

    logit(x) = relu(v·x + c) * a + b
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import nn


def perceptron(input_shape: Sequence[int], num_outputs: int = 1) -> nn.Sequential:
    """A linear unit for each output, a ReLU, and a linear read-out."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(input_shape), num_outputs), nn.ReLU(), nn.Linear(num_outputs, num_outputs)
    )
