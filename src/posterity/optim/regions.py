"""Where momentum descent is robust, and where it is stable, in the plane of rate and momentum.

    u <- mu u + g,    w <- w - lr u,    on a quadratic of curvature h

robust      (1 - sqrt(mu))^2 / h <= lr <= (1 + sqrt(mu))^2 / h      the error falls as sqrt(mu)^t, whatever h     [1]
stable      lr + a mu <= a                                          steps add up to lr / (1 - mu) <= a times g    [2]

a is the largest rate that is stable without momentum; on a quadratic 2 / h, and what is below the line converges. There
descent itself goes on to lr h < 2 (1 + mu): the line is what noise and many curvatures leave of it.

fitted      a = argmax_a P(lr / (1 - mu) <= a | success) - P(lr / (1 - mu) <= a | failure)

over all thresholds between runs, the lowest of equals: both kinds count alike, however many there are of each, and
failures far below the line (rates too low to get anywhere) shift nothing.

Limits: mu = 0 is robust at lr = 1 / h alone, and stable up to a; mu -> 1 is robust for 0 < lr <= 4 / h, and stable for
lr = 0 alone. Of several curvatures, such as the least and the greatest, the region is what all have in common.

[1] Zhang and Mitliagkas, YellowFin and the art of momentum tuning, 2017 (1706.03471), lemma 3.
[2] Source 000, eq. 3.1.7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posterity.core.errors import UsageError
from posterity.optim.stepping import check_positive

Array = NDArray[np.float64]


def robust_rates(momentum: ArrayLike, *curvatures: float) -> tuple[Array, Array]:
    """The least and the greatest robust rate at each momentum (of any shape); none where the least is the greater."""
    if not curvatures:
        raise UsageError("the robust region is that of one curvature or more: give it, such as robust_rates(0.9, 2.0)")
    for curvature in curvatures:
        check_positive("the curvature", curvature)
    root = np.sqrt(_momentum(momentum))
    return (1 - root) ** 2 / min(curvatures), (1 + root) ** 2 / max(curvatures)


def stable_rate(momentum: ArrayLike, largest: float) -> Array:
    """The rate on the stability line at each momentum (of any shape); `largest` is a, the rate at momentum 0."""
    check_positive("the largest rate", largest)
    rate: Array = largest * (1 - _momentum(momentum))
    return rate


def fit_stable_rate(lr: ArrayLike, momentum: ArrayLike, success: ArrayLike) -> float | None:
    """a of the line that parts runs (n,) that succeeded from those that failed above it; None where none did."""
    steps = np.asarray(lr, dtype=np.float64) / np.maximum(1 - _momentum(momentum), np.finfo(float).tiny)
    good = np.asarray(success, dtype=bool)
    if not steps.shape == good.shape == (steps.size,) or not (steps > 0).all():
        raise UsageError("a line is fitted to one positive rate, one momentum and one success or failure a run")
    if not good.any() or good.all():
        return None
    order = np.argsort(steps)
    steps, good = steps[order], good[order]
    gain = np.cumsum(good / good.sum() - ~good / (~good).sum())
    gain[:-1][steps[:-1] == steps[1:]] = -np.inf  # no threshold parts equal runs
    best = int(gain.argmax())
    if best == len(steps) - 1:
        return None
    return float(np.sqrt(steps[best] * steps[best + 1]))


def _momentum(momentum: ArrayLike) -> Array:
    values: Array = np.asarray(momentum, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"momentum must lie in [0, 1], got {momentum!r}")
    return values
