"""The per-datum negative ELBO.

    negative_elbo = nll + temperature * kl_weight * kl / num_data

    nll        mean over the batch and the weight samples of -log P(y | x, w)
    kl         KL(q || prior) summed over all weights
    kl_weight  M pi_i, the batch's share of the epoch's KL times the number of batches (objectives.weighting)

Its expectation does not depend on the batch size. Limits: temperature 0 is maximum expected likelihood;
a point posterior with temperature 1 is MAP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.likelihoods import Likelihood
from posterity.objectives.divergence import kl_by_weight
from posterity.objectives.draw import draw_with_kl


@dataclass(frozen=True)
class Loss:
    """The negative ELBO and what it is made of."""

    total: Tensor
    nll: Tensor
    kl: Tensor
    temperature: float
    kl_weight: float
    outputs: Tensor
    net: BayesianModule
    version: int

    @property
    def kl_by_layer(self) -> dict[str, Tensor]:
        """The KL of each layer; computed when asked for, which must be before the weights change."""
        if self.net.posterior.mean._version != self.version:
            raise UsageError("kl_by_layer must be read before the optimiser's step changes the weights")
        with torch.no_grad():
            return self.net.layout.sum_by_layer(kl_by_weight(self.net.posterior, self.net.prior))

    def backward(self) -> None:
        """Accumulate the gradient of `total`."""
        self.total.backward()

    def item(self) -> float:
        """`total` as a number."""
        return self.total.item()


def negative_elbo(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    *,
    num_data: int,
    samples: int = 1,
    temperature: float = 1.0,
    kl_weight: float = 1.0,
) -> Loss:
    """The loss of one batch; `num_data` is the size of the whole training set."""
    if num_data < 1:
        raise UsageError(f"num_data is the size of the training set, not {num_data}")
    if not (math.isfinite(temperature) and temperature >= 0):
        raise UsageError(f"the temperature must be a number of at least 0, not {temperature}")
    if samples < 1:
        raise UsageError(f"the number of weight samples must be at least 1, not {samples}")
    weights, kl = draw_with_kl(net, samples)
    outputs = net.outputs(x, weights=weights)
    nll = likelihood.nll(outputs, y)
    factor = temperature * kl_weight / num_data
    total = nll + factor * kl if factor else nll
    return Loss(total, nll, kl, temperature, kl_weight, outputs, net, net.posterior.mean._version)
