"""Mean-field: independent Gaussians over the flat weight vector.

    w = mean + sd * eps,    eps ~ N(0, I),    sd = softplus(rho) = log(1 + exp(rho))
    log q(w) = -sum_i [ (w_i - mean_i)^2 / (2 sd_i^2) + log sd_i + log(2 pi) / 2 ]
    entropy  =  sum_i [ log sd_i + (1 + log(2 pi)) / 2 ]

Limits: rho -> -inf gives the point posterior (sd -> exp(rho)); rho -> inf gives sd -> rho.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.posteriors.posterior import Posterior

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class MeanField(Posterior):
    """Independent Gaussians with means (N,) and free scale parameters `rho` (N,)."""

    kind = "mean_field"
    mean: nn.Parameter

    def __init__(self, mean: Tensor, rho: Tensor) -> None:
        super().__init__()
        if mean.shape != rho.shape or mean.dim() != 1:
            raise UsageError(f"mean {tuple(mean.shape)} and rho {tuple(rho.shape)} must be vectors of one length")
        self.mean = nn.Parameter(mean.detach().clone())
        self.rho = nn.Parameter(rho.detach().clone())

    @property
    def sd(self) -> Tensor:
        """softplus(rho) (N,)."""
        return F.softplus(self.rho)

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

    @classmethod
    def empty(cls, num_weights: int, **options: Any) -> MeanField:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights), torch.zeros(num_weights))

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Means and standard deviations."""
        return {"mean": [self.mean], "sd": [self.rho]}


def rho_of(sd: Tensor) -> Tensor:
    """The inverse of softplus: log(exp(sd) - 1), without overflow for large or loss for small sd."""
    return sd + torch.log(-torch.expm1(-sd))
