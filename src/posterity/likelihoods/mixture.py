"""The predictive of a regression: a mixture of S Gaussians with equal weights, for each of n inputs and k targets.

    p(y)     = 1/S sum_s N(y; m_s, v_s^2)
    quantile   y with F(y) = q,  F(y) = 1/S sum_s Phi((y - m_s) / v_s),  by bisection between the extremes of
               m_s + v_s Phi^-1(q), between which it lies
    entropy    -integral p(y) log p(y) dy,  by Gauss-Legendre quadrature between neighbours among all m_s + c v_s,
               c = -8, -6, ..., 8, so that each component sees steps of its own width. (Gauss-Hermite over each
               errs by 0.1 nats where a narrow component lies within a wide one; this by 1e-6, at the same cost.)

All in double precision, some rows at a time so that memory is bounded, and given in the means' dtype.

Limits: S = 1 is the Gaussian, exactly; components far apart have the mean of their entropies plus log S.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from posterity.core.precision import wide, wide_type

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
NUMBERS_AT_A_TIME = 2**21  # 16 MiB in double precision
HALVINGS = 64  # more than the bits of a double
ENDS = range(-8, 9, 2)  # of the quadrature's intervals, in a component's standard deviations
NODES = 6  # in each interval


def log_densities(means: Tensor, sds: Tensor, y: Tensor) -> Tensor:
    """log N(y; m_s, v_s^2) (S, n), summed over the targets, for `means` and `sds` (S, n, k) and `y` (n, k)."""
    return _by_rows(lambda m, v, y: _log_normal(m, v, y).sum(-1), means, sds, y.unsqueeze(0), numbers=1)


def log_density(means: Tensor, sds: Tensor, y: Tensor) -> Tensor:
    """log p(y) (n,), jointly of the k targets, which are independent under each weight sample only."""

    def joint(m: Tensor, v: Tensor, y: Tensor) -> Tensor:
        each = _log_normal(m, v, y).sum(-1)
        return (each.logsumexp(0) - math.log(len(each))).unsqueeze(0)

    return _by_rows(joint, means, sds, y.unsqueeze(0), numbers=1)[0]


def quantile(means: Tensor, sds: Tensor, q: float) -> Tensor:
    """The point (n, k) below which lies the share `q` of the mixture."""
    # Above the middle it is found from above, where the tail's probability is still precise.
    sign, tail = (1.0, q) if q <= 0.5 else (-1.0, 1 - q)
    z = torch.special.ndtri(torch.tensor(tail, dtype=torch.float64, device=means.device))

    def bisect(m: Tensor, v: Tensor) -> Tensor:
        m = m * sign
        each = m + v * z
        low, high = each.amin(0), each.amax(0)
        for _ in range(HALVINGS if len(m) > 1 else 0):
            middle = low + 0.5 * (high - low)
            below = torch.special.ndtr((middle - m) / v).mean(0) < tail
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return torch.mul(low + 0.5 * (high - low), sign).unsqueeze(0)

    return _by_rows(bisect, means, sds, numbers=1)[0]


def entropy(means: Tensor, sds: Tensor) -> Tensor:
    """Differential entropy (n, k) of each target's mixture, in nats."""
    if len(means) == 1:
        return gaussian_entropy(sds[0])
    points, shares = np.polynomial.legendre.leggauss(NODES)

    def integrate(m: Tensor, v: Tensor) -> Tensor:
        ends = torch.cat([m + c * v for c in ENDS]).sort(0).values
        total = torch.zeros_like(m[0])
        block = max(1, NUMBERS_AT_A_TIME // m.numel())
        for left, width in zip(ends[:-1].split(block), ends.diff(dim=0).split(block), strict=True):
            for point, share in zip(0.5 * (points + 1), 0.5 * shares, strict=True):
                y = (left + point * width).unsqueeze(1)
                log_p = _log_normal(m, v, y).logsumexp(1) - math.log(len(m))
                total -= (share * width * log_p.exp() * log_p).sum(0)
        return total.unsqueeze(0)

    return _by_rows(integrate, means, sds, numbers=len(means) * len(ENDS))[0]


def gaussian_entropy(sd: Tensor) -> Tensor:
    """log sd + (1 + log 2 pi) / 2."""
    return sd.log() + HALF_LOG_2PI + 0.5


def _log_normal(mean: Tensor, sd: Tensor, y: Tensor) -> Tensor:
    return -(0.5 * ((y - mean) / sd).square() + sd.log() + HALF_LOG_2PI)


def _by_rows(function: Callable[..., Tensor], means: Tensor, sds: Tensor, *others: Tensor, numbers: int) -> Tensor:
    """`function` of the tensors (., n, k) in double precision, in parts along n; it makes `numbers` of each number."""
    rows = max(1, NUMBERS_AT_A_TIME // max(1, means[:, 0].numel() * numbers))
    tiny = torch.finfo(wide_type(means.device)).tiny  # a noise that has underflowed to 0 is a step, not 0 / 0
    parts = zip(*(tensor.split(rows, dim=1) for tensor in (means, sds, *others)), strict=True)
    done = [function(wide(m), wide(v).clamp_min(tiny), *(wide(o) for o in rest)) for m, v, *rest in parts]
    return torch.cat(done, dim=1).to(means.dtype)
