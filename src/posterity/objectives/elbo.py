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
from posterity.objectives.baseline import MovingBaseline
from posterity.objectives.estimate import estimate
from posterity.objectives.pairs import kl_by_weight, pair_of


@dataclass(frozen=True, repr=False)
class Loss:
    """The negative ELBO and what it is made of.

    The KL's value is computed when it is first read (`kl`, `total`, `kl_by_layer`), which must be before the
    weights change; `backward` does not need it. With a Monte Carlo gradient (total, path, score) it is
    log q(w) - log prior(w), averaged over the drawn weights; with analytic ones it is exact.
    """

    nll: Tensor
    temperature: float
    kl_weight: float
    num_data: int
    outputs: Tensor
    net: BayesianModule
    kl_handle: Tensor
    fingerprint: list[Tensor]
    kl_drawn: Tensor | None = None
    weights: Tensor | None = None

    def __repr__(self) -> str:
        # The KL where it is known or at hand: not once the weights have changed, nor by quadrature for a print.
        cheap = pair_of(self.net.posterior, self.net.prior).cheap
        at_hand = self.kl_drawn is not None or (cheap and self._unchanged())
        kl = f", kl={self.kl.item():.6g}" if at_hand or "kl" in vars(self) else ""
        total = f"{self.item():.6g}, " if kl else ""
        return f"Loss({total}nll={self.nll.item():.6g}{kl}, temperature={self.temperature:g}, num_data={self.num_data})"

    def _unchanged(self) -> bool:
        return all(torch.equal(a, b) for a, b in zip(_fingerprint(self.net), self.fingerprint, strict=True))

    @cached_property
    def kl_by_weight(self) -> Tensor:
        """Each weight's share (N,) of the KL, detached."""
        if not self._unchanged():
            raise UsageError(
                "the KL of a loss must be read (kl, total, item or kl_by_layer) before the optimiser's step "
                "changes the weights: read it before, or call kl_divergence for the present one"
            )
        with torch.no_grad():
            if self.weights is None:
                return kl_by_weight(self.net.posterior, self.net.prior)
            by_weight = self.net.posterior.log_density_by_weight(self.weights)
            return (by_weight - self.net.prior.log_density_by_weight(self.weights)).mean(0)

    @cached_property
    def kl(self) -> Tensor:
        """KL(q || prior), summed over all weights, in nats; differentiable."""
        value = self.kl_by_weight.sum() if self.kl_drawn is None else self.kl_drawn
        return value + self.kl_handle

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
        if self.kl_factor:
            torch.autograd.backward((self.nll, self.kl_handle), (None, self.kl_handle.new_tensor(self.kl_factor)))
        else:  # a log q that is not finite (an sd of 0) must not make 0 * inf
            self.nll.backward()

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
    estimator: str = "sample",
    gradient: str | None = None,
    baseline: str | MovingBaseline | None = None,
    weight: Tensor | None = None,
) -> Loss:
    """The loss of one batch; `num_data` is the size of the whole training set.

    `estimator` is how the pass is made random: "sample", "local" or "flipout" (posterity.estimators). `gradient` is how
    the KL enters: "analytic", "total", "path" or "score", by default the first that q and prior have. `baseline`, for
    the score, is "leave_one_out" or a `MovingBaseline` that is kept from call to call (objectives.estimate).
    `weight` (n,) says how often each datum counts.
    """
    if num_data < 1:
        raise UsageError(f"num_data is the size of the training set, not {num_data}")
    if not (math.isfinite(temperature) and temperature >= 0):
        raise UsageError(f"the temperature must be a number of at least 0, not {temperature}")
    if samples < 1:
        raise UsageError(f"the number of weight samples must be at least 1, not {samples}")
    kinds = {"estimator": estimator, "gradient": gradient, "baseline": baseline}
    e = estimate(net, likelihood, x, y, samples=samples, weight=weight, **kinds)  # type: ignore[arg-type]
    rest = (e.outputs, net, e.kl_handle, _fingerprint(net), e.kl_drawn, e.weights)
    return Loss(e.nll, temperature, kl_weight, num_data, *rest)


def _fingerprint(net: BayesianModule) -> list[Tensor]:
    # A few values of each parameter: fused optimisers do not raise autograd's version counter.
    return [p.detach().flatten()[:: max(1, p.numel() // 8)].clone() for p in net.posterior.parameters()]
