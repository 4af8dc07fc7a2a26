"""Priors that are one standardised density (mean 0, sd 1), shifted and stretched for each weight.

    log prior(w) = sum_i [ log f((w_i - mean_i) / sd_i) - log sd_i ]

A sample is the quantile function of f at Phi(noise). Where it has no closed form it is tabulated: z = sinh(s) on an
even grid in s, whose distribution function is the running trapezoidal sum of f(z) dz/ds, from both ends so that neither
tail is lost, and read off against the normal score of the noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from posterity.priors.prior import Prior

REACH, POINTS = 16.0, 8001  # of the table: |z| up to sinh(16) = 4.4e6


class LocationScale(Prior):
    """Independent weights with sd (N,) and mean (N,), or zero mean with none stored."""

    by_weight = ("centre", "spread")
    centre: Tensor | None
    spread: Tensor

    def __init__(self, sd: Tensor, mean: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("centre", mean)
        self.register_buffer("spread", sd.clone())

    @abstractmethod
    def log_standard(self, z: Tensor) -> Tensor:
        """log f(z), element by element; f has mean 0 and sd 1."""

    def quantile(self, noise: Tensor) -> Tensor:
        """F^-1(Phi(noise)), element by element."""
        return self._tabulated_quantile(noise)

    @property
    def mean(self) -> Tensor:
        """Mean of each weight (N,), or (1,) where it is zero for all."""
        return self.spread.new_zeros(1) if self.centre is None else self.centre

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""
        return self.spread

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""
        return self.log_standard((weights - self.mean) / self.spread) - self.spread.log()

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        return torch.addcmul(self.mean, self.spread, self.quantile(noise))

    @classmethod
    def empty(cls, num_weights: int, *, centred: bool = False, **options: Any) -> Self:
        """Of unit scale, to be loaded."""
        centre = torch.zeros(num_weights) if centred else None
        return cls(torch.ones(num_weights), centre, **{k: v for k, v in options.items() if k != "kind"})

    def options(self) -> dict[str, Any]:
        """Whether a mean is stored."""
        return {"centred": self.centre is not None}

    def _tabulated_quantile(self, noise: Tensor) -> Tensor:
        s = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64, device=noise.device)
        with torch.no_grad():
            mass = (self.log_standard(s.sinh().to(noise.dtype)).double() + s.cosh().log()).exp()
            pieces = 0.5 * (mass[1:] + mass[:-1])
            whole = pieces.sum()
            below = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)]) / whole
            above = torch.cat([pieces.flip(0).cumsum(0).flip(0), pieces.new_zeros(1)]) / whole
            # The normal score of each point of the table, from its nearer tail.
            scores = torch.where(below < 0.5, _score(below), -_score(above))
            inside = scores.isfinite()
            scores, s = scores[inside].contiguous(), s[inside]
            at = torch.searchsorted(scores, noise.double().contiguous()).clamp(1, len(scores) - 1)
            low, high = scores[at - 1], scores[at]
            share = (noise.double() - low) / (high - low).clamp_min(1e-300)
            return torch.lerp(s[at - 1], s[at], share.clamp(0, 1)).sinh().to(noise.dtype)


def _score(probability: Tensor) -> Tensor:
    """Phi^-1 by a Newton step in log Phi, so that small probabilities keep their digits."""
    score = torch.special.ndtri(probability)
    usable = score.isfinite() & (score < 0)
    gap = torch.special.log_ndtr(score) - probability.log()
    slope = (-0.5 * score.square() - 0.5 * math.log(2 * math.pi) - torch.special.log_ndtr(score)).exp()
    return torch.where(usable, score - gap / slope, score)
