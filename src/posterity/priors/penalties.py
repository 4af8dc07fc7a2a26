"""Penalties r(w) of a weight tensor, and the factor that a network's initialisation gives them.

    l2                    sum_i w_i^2
    l1                    sum_i |w_i|
    group_lasso_rows      ||w||_{2,1}  : sum over rows of their Euclidean norm
    group_lasso_columns   ||w^T||_{2,1}: sum over columns

A row is what feeds one output (a convolution's filter: the first axis), a column what one input feeds (a convolution's
input channel: the second axis, with all kernel positions). A transposed convolution's axes are the other way round; one
with groups has as many rows and columns as output and input channels, each within its group. Weights without a second
axis (biases, scales of norms) are groups of one in both.

Factor: the prior alpha ~ exp(-lambda r) of a point network (priors.equivalence) is to have the variance of the
initialisation, Glorot's 1/n, n the layer's number of inputs:
    l2: lambda = n / 2        l1: lambda = sqrt(2 n)        group lasso, groups of d: lambda = sqrt((d + 1) n)
and for any other penalty, a function of a weight or of a group's norm, by numerical integration:
    variance of one weight = int x^2 x^(d-1) exp(-lambda r(x)) dx / (d int x^(d-1) exp(-lambda r(x)) dx)
on a grid even in log x, where the trapezoidal rule converges exponentially; lambda by bisection.

The Edge of Chaos has the variance 2/n for a ReLU (the same as Kaiming's): then n / 2 takes the place of n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from posterity.core.errors import UsageError, unknown_name
from posterity.core.layout import Entry

Array = NDArray[np.float64]
LOG_REACH, POINTS = 80.0, 20_001  # of log x
LOG_FACTORS = (-60.0, 60.0)
GLOROT = "glorot"
VARIANCES = {GLOROT: 1.0, "edge-of-chaos": 2.0}  # of a weight at initialisation, times n; the latter for a ReLU


@dataclass(frozen=True)
class Penalty:
    """Which weights form a group (`axis` 0: rows, 1: columns, None: each by itself) and whether norms are squared."""

    name: str
    axis: int | None
    squared: bool = False

    def groups(self, entry: Entry, part: Tensor) -> Tensor:
        """`part` (..., size) of the flat vector as groups (..., G, d)."""
        if self.axis is None or len(entry.shape) < 2:
            return part.unsqueeze(-1)
        kept, blocks = self._axis(entry), _blocks(entry)
        view: Tensor = entry.view(part).unflatten(
            -len(entry.shape), blocks[:2]
        )  # (..., groups, first / groups, second, ...)
        view = view.movedim(kept - len(blocks), 1 - len(blocks))
        return view.flatten(start_dim=2 - len(blocks)).flatten(-3, -2)

    def spread(self, entry: Entry, values: Tensor) -> Tensor:
        """Values (..., G) of groups, in equal shares for their weights (..., size): each sum is kept."""
        d = self.group_size(entry)
        if d == 1 and (self.axis is None or len(entry.shape) < 2):
            return values
        blocks, lead = _blocks(entry), values.shape[:-1]
        shape = [1] * len(blocks)
        for axis in (0, self._axis(entry)):
            shape[axis] = blocks[axis]
        each = (values / d).reshape(*lead, *shape).expand(*lead, *blocks)
        return entry.flat(each.flatten(len(lead), len(lead) + 1))

    def group_size(self, entry: Entry) -> int:
        """d, the number of weights in each group of a weight tensor."""
        if self.axis is None or len(entry.shape) < 2:
            return 1
        blocks = _blocks(entry)
        return prod(entry.shape) // (blocks[0] * blocks[self._axis(entry)])

    def _axis(self, entry: Entry) -> int:
        """Which of `_blocks`, beside the first, tells the groups apart."""
        return 2 if (self.axis == 1) != entry.transposed else 1

    def factor(self, n: float, group_size: int = 1) -> float:
        """lambda, by the closed forms of the header."""
        if self.squared:
            return n / 2
        return math.sqrt((group_size + 1) * n)


def _blocks(entry: Entry) -> tuple[int, ...]:
    """A weight's shape with a convolution's groups apart: (groups, first / groups, second, ...)."""
    first, *rest = entry.shape
    return (entry.groups, first // entry.groups, *rest)


PENALTIES = {
    p.name: p
    for p in (
        Penalty("l2", None, squared=True),
        Penalty("l1", None),
        Penalty("group_lasso_rows", 0),
        Penalty("group_lasso_columns", 1),
    )
}


def penalty_named(name: str) -> Penalty:
    """The penalty of that name."""
    if name not in PENALTIES:
        raise unknown_name("penalty", name, PENALTIES)
    return PENALTIES[name]


def variance_named(name: str) -> float:
    """n times the variance of that name."""
    if name not in VARIANCES:
        raise unknown_name("variance of the initialisation", name, VARIANCES)
    return VARIANCES[name]


def penalty_factor(
    penalty: str | Callable[[Any], Any], n: float, group_size: int = 1, *, variance: str = GLOROT
) -> float:
    """lambda for a layer of `n` inputs: of a named penalty, or of a function of x, an array.

    With groups of more than one weight the function takes their Euclidean norm; otherwise the weight itself.
    """
    n = n / variance_named(variance)
    if not (math.isfinite(n) and n > 0 and group_size >= 1):
        raise UsageError(f"a layer has a positive number of inputs and groups of at least 1, not {n} and {group_size}")
    if isinstance(penalty, str):
        known = penalty_named(penalty)
        if known.axis is None and group_size != 1:
            raise UsageError(f"'{penalty}' takes each weight by itself: its group size is 1, not {group_size}")
        return known.factor(n, group_size)
    low, high = LOG_FACTORS
    if not variance_of(penalty, math.exp(high), group_size) < 1 / n < variance_of(penalty, math.exp(low), group_size):
        raise UsageError(f"no factor between e^{low:g} and e^{high:g} gives the penalty's prior the variance 1/{n:g}")
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if variance_of(penalty, math.exp(middle), group_size) > 1 / n else (low, middle)
    return math.exp(0.5 * (low + high))


def variance_of(penalty: Callable[[Any], Any], factor: float, group_size: int = 1) -> float:
    """Variance of one weight under exp(-factor * penalty), inf where it has none."""
    log_x = np.linspace(-LOG_REACH, LOG_REACH, POINTS)
    x = np.exp(log_x)
    signs = (1.0,) if group_size > 1 else (1.0, -1.0)
    logs = []
    for sign in signs:
        with np.errstate(over="ignore", invalid="ignore"):
            energy = factor * np.asarray(penalty(sign * x), dtype=np.float64)
        energy = np.where(np.isnan(energy), np.inf, energy)
        logs.append(group_size * log_x - energy)
    top = max(float(log.max()) for log in logs)
    # The second moment must have died away, and go on falling, where the grid ends, or it is that of the grid.
    seconds = [log + 2 * log_x for log in logs]
    if not math.isfinite(top) or any(s[-1] > s.max() - 40 or s[-1] >= s[-2] > -math.inf for s in seconds):
        return math.inf
    moments = [
        [_sum(log, power * log_x, top) * sign**power for power in (0, 1, 2)]
        for sign, log in zip(signs, logs, strict=True)
    ]
    mass, first, second = (sum(m[power] for m in moments) for power in (0, 1, 2))
    if group_size > 1:
        return float(second / mass / group_size)
    return float(second / mass - (first / mass) ** 2)


def _sum(log: Array, more: Array, top: float) -> float:
    with np.errstate(under="ignore"):
        return float(np.exp(log - top + more, where=log > -np.inf, out=np.zeros_like(log)).sum())
