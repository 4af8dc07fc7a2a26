"""SGD with momentum on a linear regression, its rate on a schedule        (source 000, figure 3.2; SPEC 13, T4).

    y = x.w + noise,    L(w) = mean (y - x.w)^2 / 2 over all rows,    excess = L(w) - min L
    u <- mu u + gradient of a batch,    w <- w - lr factor(t) u

Limits: batches of all rows have no noise, and the excess falls to 0 at any stable rate; in batches of fewer rows a
constant rate leaves an excess that grows with the rate, and a rate that falls to 0 none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.optim import build_schedule

LEAST = 1e-300  # an excess of 0 has no logarithm


def linear_regression_descent(
    *,
    schedule: str,
    warmup: float = 0.0,
    lr: float = 0.1,
    momentum: float = 0.0,
    epochs: int = 40,
    rows: int = 200,
    inputs: int = 10,
    batch_size: int = 10,
    noise: float = 0.5,
    seed: int = 0,
) -> dict[str, Any]:
    """The excess at the end and its log10; by epoch the excess and the rate. A plateau watches the loss of all rows."""
    if rows <= inputs or rows % batch_size:
        raise UsageError(f"rows ({rows}) must exceed inputs ({inputs}) and be a multiple of batch_size ({batch_size})")
    random = np.random.default_rng(derive(seed, "linear regression"))
    x, truth = random.standard_normal((rows, inputs)), random.standard_normal(inputs)
    y = x @ truth + noise * random.standard_normal(rows)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    course = build_schedule(schedule, epochs=epochs, **({"warmup": warmup} if warmup else {}))
    w, u = np.zeros(inputs), np.zeros(inputs)
    batches = rows // batch_size
    history = []
    for epoch in range(epochs):
        rate = lr
        for number, batch in enumerate(random.permutation(rows).reshape(batches, batch_size)):
            rate = lr * course.factor((epoch * batches + number) / (epochs * batches))
            u = momentum * u + x[batch].T @ (x[batch] @ w - y[batch]) / batch_size
            w = w - rate * u
        # The residual at the best weights is orthogonal to the inputs: the excess needs no difference of losses.
        excess = float(((x @ (w - best)) ** 2).mean() / 2)
        course.observe({"nll": float(((y - x @ w) ** 2).mean() / 2)})
        history.append({"epoch": epoch + 1, "excess": excess, "rate": rate})
    return {"excess": excess, "log_excess": float(np.log10(max(excess, LEAST))), "history": history}
