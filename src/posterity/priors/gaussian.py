"""Gaussian prior with independent weights.

    log prior(w) = -sum_i [ (w_i - mean_i)^2 / (2 sd_i^2) + log sd_i + log(2 pi) / 2 ]

The scale is a number or a rule by layer (priors.scales); the mean is zero, a number, the network's weights
at the time (`"pretrained"`, so that the prior moves with them), or given weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.scales import scales_by_entry

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """What a user asks for: N(mean, scale^2), to be bound to a network's layout."""

    scale: float | str | Callable[[int, int], float] = "kaiming"
    mean: float | str | Mapping[str, Tensor] = 0.0

    def bind(self, layout: Layout, weights: Tensor) -> FlatGaussian:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        sd = layout.fill(scales_by_entry(self.scale, layout)).to(weights)
        if isinstance(self.mean, str):
            if self.mean != "pretrained":
                raise UsageError(f"a prior's mean is a number, 'pretrained' or weights by name, not '{self.mean}'")
            mean = weights.detach().clone()
        elif isinstance(self.mean, Mapping):
            mean = layout.flatten(self.mean).to(weights)
        else:
            mean = weights.new_full((1,), float(self.mean))
        return FlatGaussian(mean, sd)


class FlatGaussian(nn.Module):
    """Independent Gaussians over the flat vector: `mean` (N,) or (1,), `sd` (N,). Both are saved."""

    kind = "gaussian"
    mean: Tensor
    sd: Tensor

    def __init__(self, mean: Tensor, sd: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("sd", sd)

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""
        return -(0.5 * ((weights - self.mean) / self.sd).square() + self.sd.log() + HALF_LOG_2PI)

    def log_density(self, weights: Tensor) -> Tensor:
        """log prior(w) (...,) for `weights` (..., N)."""
        return self.log_density_by_weight(weights).sum(-1)

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        return torch.addcmul(self.mean, self.sd, noise)
