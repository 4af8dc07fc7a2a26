"""A prior given by a table of its log density, such as one derived from a penalty (priors.equivalence).

Between the points of its even grid the log density is a cubic Hermite polynomial with the slopes of central
differences (once continuously differentiable, error of third order in the spacing); beyond both ends it falls on in a
straight line, an exponential tail with the slope of the end. It is normalised, centred and scaled to sd 1 with these
tails, then placed at `mean` with the table's own sd, or with `scale` by a rule for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.location_scale import LocationScale
from posterity.priors.scales import centre_of, scale_rule, sd_of


@dataclass(frozen=True)
class Tabulated:
    """What a user asks for: the density exp(`log_density`) on an even `grid`, up to a factor.

    With a `scale` (a number or a rule) it is stretched to that standard deviation; its mean is then `mean`, as without
    a scale it is the table's own.
    """

    grid: ArrayLike
    log_density: ArrayLike
    scale: float | str | Callable[[int, int], float] | None = None
    mean: float | str | Mapping[str, Tensor] = 0.0

    def __post_init__(self) -> None:
        standardise(self.grid, self.log_density)
        if self.scale is not None:
            scale_rule(self.scale)

    def bind(self, layout: Layout, weights: Tensor) -> FlatTabulated:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        start, step, values, mean, sd = standardise(self.grid, self.log_density)
        centre = torch.full_like(weights, mean) if self.scale is None else centre_of(self.mean, layout, weights)
        spread = sd_of(sd if self.scale is None else self.scale, layout, weights)
        return FlatTabulated(spread, centre, table=torch.from_numpy(values).to(weights), start=start, step=step)


def trapezoid(values: Any, step: float) -> float:
    """The integral of values on an even grid."""
    return float(step * (values.sum() - 0.5 * (values[0] + values[-1])))


def standardise(grid: ArrayLike, log_density: ArrayLike) -> tuple[float, float, Any, float, float]:
    """First point, spacing and log density of the table with mean 0 and sd 1, and the mean and sd it had."""
    w, values = np.asarray(grid, dtype=np.float64), np.asarray(log_density, dtype=np.float64)
    steps = np.diff(w)
    if w.ndim != 1 or len(w) < 8 or values.shape != w.shape or not np.isfinite(values).all():
        raise UsageError(f"a table needs at least 8 points and a finite value at each, not {w.shape}, {values.shape}")
    if not (steps > 0).all() or not np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
        raise UsageError("the grid of a table must ascend in even steps")
    step, values = steps.mean(), values - values.max()
    slopes = np.gradient(values, step, edge_order=2)
    left, right = slopes[0], -slopes[-1]
    if left <= 0 or right <= 0:
        raise UsageError("the log density must fall towards both ends of the table: widen the grid")
    # Moments: the trapezoid inside, exponentials outside (the k-th moment of exp(-rate x) about the end point).
    density = np.exp(values)

    def moment(power: int) -> float:
        inside = trapezoid(density * w**power, step)
        low, high, (a, b) = density[0], density[-1], (w[0], w[-1])
        tails = {
            0: low / left + high / right,
            1: low * (a / left - left**-2) + high * (b / right + right**-2),
            2: low * (a**2 / left - 2 * a / left**2 + 2 / left**3)
            + high * (b**2 / right + 2 * b / right**2 + 2 / right**3),
        }
        return float(inside + tails[power])

    mass = moment(0)
    mean = moment(1) / mass
    sd = float(np.sqrt(moment(2) / mass - mean**2))
    return (w[0] - mean) / sd, step / sd, values - np.log(mass) + np.log(sd), mean, sd


class FlatTabulated(LocationScale):
    """Independent weights with one tabulated shape, shifted and stretched."""

    kind = "tabulated"
    table: Tensor

    def __init__(self, sd: Tensor, mean: Tensor | None = None, *, table: Tensor, start: float, step: float) -> None:
        super().__init__(sd, mean)
        self.start, self.step = start, step
        self.register_buffer("table", table)

    def log_standard(self, z: Tensor) -> Tensor:
        """The interpolated table, with straight tails."""
        table, step = self.table, self.step
        last = len(table) - 1
        slope = torch.gradient(table, edge_order=2)[0]  # for one step
        place = (z - self.start) / step
        inside = place.clamp(0, last)
        index = inside.detach().floor().clamp(0, last - 1).long()
        t = inside - index
        low, high, a, b = table[index], table[index + 1], slope[index], slope[index + 1]
        cubic = low + t * (a + t * (3 * (high - low) - 2 * a - b + t * (2 * (low - high) + a + b)))
        outside = place - inside
        return cubic + torch.where(outside < 0, slope[0], slope[-1]) * outside

    @classmethod
    def empty(
        cls, num_weights: int, *, points: int = 8, start: float = 0.0, step: float = 1.0, **options: Any
    ) -> FlatTabulated:
        """An empty table, to be loaded."""
        return super().empty(num_weights, table=torch.zeros(points), start=start, step=step, **options)

    def options(self) -> dict[str, Any]:
        """The grid, and whether a mean is stored."""
        return {**super().options(), "points": len(self.table), "start": self.start, "step": self.step}
