"""The AND perceptron of source 000, section 2.4: one ReLU unit whose output is a Bernoulli probability.

    p(x) = relu(w·x + b),    cut to [EPS, 1 - EPS] and given as its logit

w = (1, 1), b = -1 solves AND exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

EPS = 1e-3


class Logit(nn.Module):
    """The logit of a probability, cut to stay finite."""

    def forward(self, probability: Tensor) -> Tensor:
        """log(p / (1 - p))."""
        return torch.logit(probability, eps=EPS)


def perceptron(input_shape: Sequence[int], num_outputs: int = 1) -> nn.Sequential:
    """A linear unit for each output, a ReLU, and the logit."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), num_outputs), nn.ReLU(), Logit())
