"""Effects over the draws of a random search: each run is a repetition, and runs are resampled.

    effect      a statistic of all n runs; its 95 % interval are percentiles over resamples of n runs with replacement

So that the interval also holds what a seed decides, a search draws each run's seed with its other settings. A run that
diverged has no numbers: it stands in a statistic with what guessing gives, or with the worst of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from posterity.claims.verdict import LEVEL, Effect
from posterity.core.randomness import derive
from posterity.experiments.results import Results

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

RESAMPLES = 1000
CHANCE = 0.1  # accuracy of guessing one of ten classes
GUESSING = math.log(10)  # nats a datum that it costs
SEED = {"choices": [0, 1, 2, 3, 4]}  # an axis of a search: whose network, data and order a draw has


def numbers(results: Results, name: str, *, failed: float = math.nan) -> Floats:
    """A setting or metric of each run (n,), in their order; `failed` where there is none."""
    values = np.array([failed if value is None else value for value in results.column(name)], dtype=np.float64)
    return np.where(np.isfinite(values), values, failed)


def resampled(statistic: Callable[[Places], float], count: int) -> Effect:
    """The statistic, a function of the places of runs, over all `count` of them.

    Where more than a resample in forty has no such number (no good run was among them, say) there are no bounds.
    """
    whole = float(statistic(np.arange(count)))
    if count < 2 or not math.isfinite(whole):
        return Effect(whole, -math.inf, math.inf, count)
    picks = np.random.default_rng(derive(0, "resampled")).integers(count, size=(RESAMPLES, count))
    found = np.array([statistic(pick) for pick in picks])
    there = found[np.isfinite(found)]
    if len(there) < (1 + LEVEL) / 2 * RESAMPLES:
        return Effect(whole, -math.inf, math.inf, count)
    low, high = np.quantile(there, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Effect(whole, float(low), float(high), count)


def means_apart(values: Floats, ones: NDArray[np.bool_], others: NDArray[np.bool_]) -> Effect:
    """The mean of some runs minus that of others, all resampled together."""

    def apart(pick: Places) -> float:
        one, other = values[pick][ones[pick]], values[pick][others[pick]]
        return float(one.mean() - other.mean()) if len(one) and len(other) else math.nan

    return resampled(apart, len(values))


def rank_correlation(one: Floats, other: Floats) -> Effect:
    """Spearman's, over all runs; nan where all are alike."""

    def correlation(pick: Places) -> float:
        ranks = np.array([rankdata(values[pick]) for values in (one, other)])
        centred = ranks - ranks.mean(1, keepdims=True)
        scale = math.sqrt(float((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
        return float((centred[0] * centred[1]).sum() / scale) if scale else math.nan

    return resampled(correlation, len(one))
