"""Laplace prior with independent weights: the L1 penalty's prior.

    log prior(w) = -sum_i [ |w_i - mean_i| / b_i + log(2 b_i) ],    b = sd / sqrt(2)
    E log prior  = -sum_i [ E |w_i - mean_i| / b_i + log(2 b_i) ]   (folded normal, priors.expectations)
    quantile     = -sign(eps) b log(2 Phi(-|eps|))

The scale that minimises the KL for a weight tensor is b = average of E |w - mean|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posterity.core.layout import Layout
from posterity.priors.expectations import expected_abs
from posterity.priors.location_scale import LocationScale
from posterity.priors.scales import DEFAULT_SCALE, centre_of, scale_rule, sd_of


@dataclass(frozen=True)
class Laplace:
    """What a user asks for: a Laplace distribution with standard deviation `scale` around `mean`."""

    scale: float | str | Callable[[int, int], float] = DEFAULT_SCALE
    mean: float | str | Mapping[str, Tensor] = 0.0

    def __post_init__(self) -> None:
        scale_rule(self.scale)

    def bind(self, layout: Layout, weights: Tensor) -> FlatLaplace:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        return FlatLaplace(sd_of(self.scale, layout, weights), centre_of(self.mean, layout, weights))


class FlatLaplace(LocationScale):
    """Independent Laplace distributions over the flat vector."""

    kind = "laplace"
    learnable = True

    def log_standard(self, z: Tensor) -> Tensor:
        """-sqrt(2) |z| - log(2) / 2."""
        return -math.sqrt(2) * z.abs() - 0.5 * math.log(2)

    def quantile(self, noise: Tensor) -> Tensor:
        """In closed form, from the nearer tail."""
        tail: Tensor = torch.special.log_ndtr(-noise.abs()) + math.log(2)
        return -noise.sign() * tail * math.sqrt(0.5)

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w), by the folded normal's mean."""
        distance = expected_abs(mean - self.mean, sd) / self.spread
        return -math.sqrt(2) * distance - 0.5 * math.log(2) - self.spread.log()

    def fit_scale(self, mean: Tensor, sd: Tensor, sizes: Sequence[int]) -> None:
        """sd = sqrt(2) times the average of E |w - mean| over each weight tensor."""
        distances = expected_abs(mean - self.mean, sd).split(list(sizes))
        self.spread.copy_(torch.cat([(math.sqrt(2) * d.mean()).expand(len(d)) for d in distances]))
