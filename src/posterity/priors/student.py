"""Student-t prior with independent weights: heavy tails.

    log prior(w) = sum_i [ lgamma((df+1)/2) - lgamma(df/2) - log(pi (df-2))/2 - log sd_i
                           - (df+1)/2 log(1 + z_i^2 / (df-2)) ],    z = (w - mean) / sd

Expectation under q = N(m, s^2), accurate however wide q is: as log(1 + x) = int_0^inf (1 - exp(-t x)) exp(-t) / t dt,
    E log(1 + z^2 / c) = int_0^inf (1 - M(t)) exp(-t) / t dt,    M(t) = E exp(-t z^2 / c)  (priors.expectations)
a trapezoidal sum in log t that begins at 1e-8 / E z^2 (or 1e-8), what is below a geometric series.

`scale` is the standard deviation, as for every prior, so df must exceed 2 (t's own scale is sd sqrt((df-2)/df)).
Limit: df -> inf gives the Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.expectations import in_chunks
from posterity.priors.location_scale import LocationScale
from posterity.priors.scales import DEFAULT_SCALE, centre_of, scale_rule, sd_of

STEP, FIRST, LAST = 0.35, -52, 11  # of log t: from 1e-8 to 47; further down where weights are far out


@dataclass(frozen=True)
class StudentT:
    """What a user asks for: a Student-t distribution with standard deviation `scale` around `mean`."""

    scale: float | str | Callable[[int, int], float] = DEFAULT_SCALE
    df: float = 4.0
    mean: float | str | Mapping[str, Tensor] = 0.0

    def __post_init__(self) -> None:
        scale_rule(self.scale)
        _check_df(self.df)

    def bind(self, layout: Layout, weights: Tensor) -> FlatStudentT:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        return FlatStudentT(sd_of(self.scale, layout, weights), centre_of(self.mean, layout, weights), df=self.df)


class FlatStudentT(LocationScale):
    """Independent Student-t distributions over the flat vector."""

    kind = "student_t"

    def __init__(self, sd: Tensor, mean: Tensor | None = None, *, df: float = 4.0) -> None:
        _check_df(df)
        super().__init__(sd, mean)
        self.df = df

    def log_standard(self, z: Tensor) -> Tensor:
        """log of the density with sd 1."""
        df = self.df
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * (df - 2))
        return constant - (df + 1) / 2 * torch.log1p(z.square() / (df - 2))

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w), by the sum of the header."""

        def chunk(mean: Tensor, sd: Tensor, where: slice) -> Tensor:
            prior = self.restricted(where)
            unit = prior.spread * math.sqrt(self.df - 2)
            growth = expected_log1p_square((mean - prior.mean) / unit, sd / unit)
            return prior.log_standard(torch.zeros_like(mean)) - prior.spread.log() - (self.df + 1) / 2 * growth

        return in_chunks(chunk, mean, sd, LAST - FIRST + 1)

    def options(self) -> dict[str, Any]:
        """Degrees of freedom, and whether a mean is stored."""
        return {**super().options(), "df": self.df}


def _check_df(df: float) -> None:
    if not (math.isfinite(df) and df > 2):
        raise UsageError(f"a Student-t prior needs df above 2, where it has a standard deviation, not {df}")


def expected_log1p_square(mean: Tensor, sd: Tensor) -> Tensor:
    """E log(1 + w^2) (N,) for w ~ N(mean, sd^2)."""
    square, variance = mean.square(), sd.square()
    largest = (square + variance).max().item() if mean.numel() else 1.0
    # What is not finite stays so: the training says where.
    first = FIRST - (math.ceil(math.log(largest) / STEP) if 1 < largest < math.inf else 0)
    t = (STEP * torch.arange(first, LAST + 1, dtype=torch.float64)).exp().to(mean).unsqueeze(-1)
    wide = 2 * t * variance
    less = -torch.expm1(-0.5 * wide.log1p() - t * square / (1 + wide))
    first_term = (square + variance) * math.exp(STEP * first) / math.expm1(STEP)
    return STEP * ((less * (-t).exp()).sum(0) + first_term)
