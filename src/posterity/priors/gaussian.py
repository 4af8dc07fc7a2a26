"""Gaussian prior with independent weights.

    log prior(w) = -sum_i [ (w_i - mean_i)^2 / (2 sd_i^2) + log sd_i + log(2 pi) / 2 ]

The scale is a number or a rule by layer (priors.scales); the mean is zero, a number, the network's weights
at the time (`"pretrained"`, so that the prior moves with them), or given weights.

The scale that minimises KL(q || prior) for a weight tensor of n weights (empirical Bayes):
    sd^2 = (1/n) sum_i [ (q_mean_i - mean_i)^2 + q_sd_i^2 ]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posterity.core.layout import Layout
from posterity.core.precision import wide
from posterity.priors.prior import Prior
from posterity.priors.scales import DEFAULT_SCALE, centre_of, scale_rule, sd_of

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """What a user asks for: N(mean, scale^2), to be bound to a network's layout."""

    scale: float | str | Callable[[int, int], float] = DEFAULT_SCALE
    mean: float | str | Mapping[str, Tensor] = 0.0

    def __post_init__(self) -> None:
        scale_rule(self.scale)

    def bind(self, layout: Layout, weights: Tensor) -> FlatGaussian:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        return FlatGaussian(sd_of(self.scale, layout, weights), centre_of(self.mean, layout, weights))


class FlatGaussian(Prior):
    """Independent Gaussians over the flat vector: sd (N,) and mean (N,), or zero mean with none stored.

    Kept as precision 1 / sd^2, which is what the KL's gradient uses.
    """

    kind = "gaussian"
    by_weight = ("centre", "precision")
    learnable = True
    centre: Tensor | None
    precision: Tensor

    def __init__(self, sd: Tensor, mean: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("centre", mean)
        self.register_buffer("precision", sd.square().reciprocal())
        self._precisions: tuple[Tensor | None, int, list[Tensor]] = (None, 0, [])  # of which tensor and version
        self._half_log: tuple[Tensor | None, int, float] = (None, 0, 0.0)  # likewise

    @property
    def mean(self) -> Tensor:
        """Mean of each weight (N,), or (1,) where it is zero for all."""
        return self.precision.new_zeros(1) if self.centre is None else self.centre

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""
        return self.precision.rsqrt()

    def precisions(self, layout: Layout) -> list[Tensor]:
        """The precision by weight tensor: (1,) where all its weights have the same, so that it need not be read."""
        known, version, parts = self._precisions
        if known is not self.precision or version != self.precision._version:
            parts = [p[:1] if len(p) and bool((p == p[0]).all()) else p for p in self.precision.split(layout.sizes)]
            self._precisions = (self.precision, self.precision._version, parts)
        return parts

    @property
    def half_log_precision(self) -> float:
        """Half the sum of the precisions' logarithms, computed when they have changed."""
        known, version, value = self._half_log
        if known is not self.precision or version != self.precision._version:
            value = 0.5 * wide(self.precision).log().sum().item()
            self._half_log = (self.precision, self.precision._version, value)
        return value

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""
        square = (weights - self.mean).square() * self.precision
        return 0.5 * (self.precision.log() - square) - HALF_LOG_2PI

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        return torch.addcmul(self.mean, self.sd, noise)

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w): a Gaussian's mean square in closed form."""
        return self.log_density_by_weight(mean) - 0.5 * sd.square() * self.precision

    def fit_scale(self, mean: Tensor, sd: Tensor, sizes: Sequence[int]) -> None:
        """One sd for each weight tensor, as in the header."""
        squares = ((mean - self.mean).square() + sd.square()).split(list(sizes))
        self.precision.copy_(torch.cat([s.mean().reciprocal().expand(len(s)) for s in squares]))

    @classmethod
    def empty(cls, num_weights: int, *, centred: bool = False, **options: Any) -> FlatGaussian:
        """A standard normal, to be loaded."""
        return cls(torch.ones(num_weights), torch.zeros(num_weights) if centred else None)

    def options(self) -> dict[str, Any]:
        """Whether a mean is stored."""
        return {"centred": self.centre is not None}
