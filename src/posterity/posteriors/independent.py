"""Independent Gaussians: what mean-field and tied posteriors have in common. A family says what its `sd` is.

w = mean + sd * eps,    eps ~ N(0, I)
log q(w) = -sum_i [ (w_i - mean_i)^2 / (2 sd_i^2) + log sd_i + log(2 pi) / 2 ]
entropy  =  sum_i [ log sd_i + (1 + log(2 pi)) / 2 ]
kl       = -entropy - E_q log prior,    the last by the prior, which may have dependent weights
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posterity.posteriors.posterior import Posterior, PriorLike

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class IndependentGaussian(Posterior):
    """Gaussians with means (N,) and free scale parameters `rho`, from which `sd` (N,) follows."""

    independent = True
    mean: nn.Parameter
    rho: nn.Parameter

    def sample(self, noise: Tensor) -> Tensor:
        """mean + sd * noise (S, N)."""
        return torch.addcmul(self.mean, self.sd, noise)

    def log_density(self, weights: Tensor) -> Tensor:
        """log q(w) (S,)."""
        return self.log_density_by_weight(weights).sum(-1)

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (S, N) of log q(w)."""
        sd = self.sd
        return -(0.5 * ((weights - self.mean) / sd).square() + sd.log() + HALF_LOG_2PI)

    def entropy(self) -> Tensor:
        """Sum over the weights of log sd + (1 + log 2 pi) / 2."""
        return (self.sd.log() + HALF_LOG_2PI + 0.5).sum()

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """-entropy - E_q log prior (N,)."""
        sd = self.sd
        return -sd.log() - HALF_LOG_2PI - 0.5 - prior.expected_log_density(self.mean, sd)

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Means and standard deviations."""
        return {"mean": [self.mean], "sd": [self.rho]}
