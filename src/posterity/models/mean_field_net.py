"""The one-hidden-layer network in mean-field scaling: an average over its neurons.

    f(x) = (1/N) sum_j a_j act(b_j . x),    b_j in R^d, a_j in R^k, no biases

N is the width. For N -> inf with neurons drawn from one law nu, f(x) tends to the integral of a act(b . x) over nu [1].
Inputs of any shape are flattened. A constant input (a column of ones) stands for a bias.

Weights start independent with variance INIT_VARIANCE, the prior of [1], whatever the width: PyTorch's own start
would shrink a_j, and f with it, by another root of N. The prior belongs to the Bayesian network, not to this module:
give it the same scale at every width (prior_scale 0.4472), not a rule by fan, which would shrink with N too.

Limits: doubling the neurons (each twice) leaves f as it is; the variance of f at the start is proportional to 1/N.

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from torch import Tensor, nn

from posterity.core.errors import UsageError, unknown_name
from posterity.models.mlp import ACTIVATIONS

INIT_VARIANCE = 1 / 5


class MeanFieldNet(nn.Module):
    """Rows of `inner.weight` (N, d) are the b_j, columns of `outer.weight` (k, N) the a_j."""

    def __init__(self, num_inputs: int, num_outputs: int, *, width: int, activation: str = "relu") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown_name("activation", activation, ACTIVATIONS)
        if width < 1:
            raise UsageError(f"a mean-field network has at least one neuron, not {width}")
        self.width = width
        self.inner = nn.Linear(num_inputs, width, bias=False)
        self.activation = ACTIVATIONS[activation]()
        self.outer = nn.Linear(width, num_outputs, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=sqrt(INIT_VARIANCE))

    def forward(self, x: Tensor) -> Tensor:
        """(n, k) for inputs (n, ...)."""
        output: Tensor = self.outer(self.activation(self.inner(x.flatten(1)))) / self.width
        return output


def mean_field(
    input_shape: Sequence[int], num_outputs: int, *, hidden: Sequence[int] = (400,), activation: str = "relu"
) -> MeanFieldNet:
    """The network for inputs of `input_shape`; `hidden` is its one width."""
    if len(hidden) != 1:
        raise UsageError(f"a mean-field network has one hidden layer, such as hidden 400, not {tuple(hidden)}")
    return MeanFieldNet(prod(input_shape), num_outputs, width=hidden[0], activation=activation)
