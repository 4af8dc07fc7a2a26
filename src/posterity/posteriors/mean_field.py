"""Mean-field: independent Gaussians over the flat weight vector, each with an sd of its own.

    w = mean + sd * eps,    eps ~ N(0, I),    sd = softplus(rho) = log(1 + exp(rho))

Its density and entropy are those of all independent Gaussians (posteriors.independent).

Limits: rho -> -inf gives the point posterior (sd -> exp(rho)); rho -> inf gives sd -> rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.scale import rho_of
from posterity.posteriors.independent import IndependentGaussian


class MeanField(IndependentGaussian):
    """Independent Gaussians with means (N,) and free scale parameters `rho` (N,)."""

    kind = "mean_field"

    def __init__(self, mean: Tensor, rho: Tensor) -> None:
        super().__init__()
        if mean.shape != rho.shape or mean.dim() != 1:
            raise UsageError(f"mean {tuple(mean.shape)} and rho {tuple(rho.shape)} must be vectors of one length")
        self.mean = nn.Parameter(mean.detach().clone())
        self.rho = nn.Parameter(rho.detach().clone())

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int) -> MeanField:
        return cls(mean, rho_of(sd).to(mean))

    @property
    def sd(self) -> Tensor:
        """softplus(rho) (N,)."""
        return F.softplus(self.rho)

    @torch.no_grad()
    def set_sd(self, sd: Tensor) -> None:
        """Exactly, but for rounding."""
        self.rho.copy_(rho_of(sd.double()))

    @classmethod
    def empty(cls, num_weights: int, **options: Any) -> MeanField:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights), torch.zeros(num_weights))
