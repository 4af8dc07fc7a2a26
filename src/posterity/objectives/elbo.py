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
from functools import cached_property

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.likelihoods import Likelihood
from posterity.objectives.divergence import kl_by_weight
from posterity.objectives.draw import draw_with_kl


@dataclass(frozen=True)
class Loss:
    """The negative ELBO and what it is made of.

    The KL's value is computed when it is first read (`kl`, `total`, `kl_by_layer`), which must be before the
    weights change; `backward` does not need it.
    """

    nll: Tensor
    temperature: float
    kl_weight: float
    num_data: int
    outputs: Tensor
    net: BayesianModule
    kl_handle: Tensor
    fingerprint: list[Tensor]

    @cached_property
    def kl_by_weight(self) -> Tensor:
        """Each weight's share (N,) of the KL, detached."""
        now = _fingerprint(self.net)
        if not all(torch.equal(a, b) for a, b in zip(now, self.fingerprint, strict=True)):
            raise UsageError(
                "the KL of a loss must be read (kl, total, item or kl_by_layer) before the optimiser's step "
                "changes the weights: read it before, or call kl_divergence for the present one"
            )
        with torch.no_grad():
            return kl_by_weight(self.net.posterior, self.net.prior)

    @cached_property
    def kl(self) -> Tensor:
        """KL(q || prior), summed over all weights, in nats; differentiable."""
        return self.kl_by_weight.sum() + self.kl_handle

    @cached_property
    def kl_by_layer(self) -> dict[str, Tensor]:
        """The KL of each layer."""
        return self.net.layout.sum_by_layer(self.kl_by_weight)

    @property
    def kl_factor(self) -> float:
        """What the KL is multiplied with."""
        return self.temperature * self.kl_weight / self.num_data

    @cached_property
    def total(self) -> Tensor:
        """nll + temperature * kl_weight * kl / num_data; differentiable."""
        return self.nll + self.kl_factor * self.kl

    def backward(self) -> None:
        """Accumulate the gradient of `total`."""
        torch.autograd.backward((self.nll, self.kl_handle), (None, self.kl_handle.new_tensor(self.kl_factor)))

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
    views, kl_handle = draw_with_kl(net, samples)
    outputs = net.outputs(x, views=views)
    nll = likelihood.nll(outputs, y)
    return Loss(nll, temperature, kl_weight, num_data, outputs, net, kl_handle, _fingerprint(net))


def _fingerprint(net: BayesianModule) -> list[Tensor]:
    # A few values of each parameter: fused optimisers do not raise autograd's version counter.
    return [p.detach().flatten()[:: max(1, p.numel() // 8)].clone() for p in net.posterior.parameters()]
