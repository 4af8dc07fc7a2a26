"""Where momentum descent is robust, and where it is stable, in the plane of rate and momentum.

    u <- mu u + g,    w <- w - lr u,    on a quadratic of curvature h

robust      (1 - sqrt(mu))^2 / h <= lr <= (1 + sqrt(mu))^2 / h      the error falls as sqrt(mu)^t, whatever h     [1]
stable      lr + a mu <= a                                          steps add up to lr / (1 - mu) <= a times g    [2]

a is the largest rate that is stable without momentum; on a quadratic 2 / h, and what is below the line converges.

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


def _momentum(momentum: ArrayLike) -> Array:
    values: Array = np.asarray(momentum, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"momentum must lie in [0, 1], got {momentum!r}")
    return values
