"""Momentum descent on a quadratic:    u <- mu u + h w,    w <- w - lr u        (optim.regions)."""

from __future__ import annotations

import math

import torch

from posterity.core.errors import UsageError
from posterity.core.randomness import generator

HUGE, TINY = 1e12, 1e-250  # errors at which a descent has diverged, or has arrived as far as numbers go


def quadratic_descent(
    *, lr: float, momentum: float = 0.0, curvature: float = 1.0, steps: int = 200, seed: int = 0
) -> dict[str, float]:
    """The error after `steps` relative to the first, its factor a step over the second half, and whether it diverged.

    Limits: momentum 0 has the factor |1 - lr h|; in the robust region the factor is sqrt(momentum).
    """
    if curvature <= 0 or steps < 2:
        raise UsageError(f"a descent needs a positive curvature and two steps, not {curvature} and {steps}")
    start = 1.0 + abs(torch.randn((), dtype=torch.float64, generator=generator(seed, "start")).item())
    w, u, norms = start, 0.0, [start]
    for _ in range(steps):
        u = momentum * u + curvature * w
        w -= lr * u
        norms.append(math.hypot(w, lr * u))  # of the whole state: w alone passes through zero
        if not TINY < norms[-1] <= HUGE * start:
            break
    half = len(norms) // 2
    factor = (norms[-1] / norms[half]) ** (1 / (len(norms) - 1 - half)) if norms[half] > 0 else 0.0
    return {"error": norms[-1] / start, "factor": factor, "diverged": float(norms[-1] > HUGE * start)}
