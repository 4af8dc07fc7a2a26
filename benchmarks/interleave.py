"""Compare the speed of several callables on a noisy machine.

    ratio of a candidate in a round = its time / the baseline's time, both in that round

Every round runs every candidate, in an order that rotates from round to round: a slow spell of the machine
falls on all of them and cancels in the ratio, and none always runs after the same other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles over the rounds of a candidate's time relative to the baseline's."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def measure(candidates: dict[str, Callable[[], None]], rounds: int, inner: int) -> dict[str, list[float]]:
    """Seconds per call of every candidate in each of `rounds` rounds of `inner` calls, after a warm-up."""
    if rounds < 1 or inner < 1:
        raise ValueError(f"rounds and inner must be at least 1, got {rounds} and {inner}")
    for candidate in candidates.values():
        seconds_per_call(candidate, inner)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = deque(candidates)
    for _ in range(rounds):
        for name in order:
            times[name].append(seconds_per_call(candidates[name], inner))
        order.rotate(-1)
    return times


def seconds_per_call(candidate: Callable[[], None], inner: int) -> float:
    """Mean wall-clock time of `inner` calls in a row."""
    start = perf_counter()
    for _ in range(inner):
        candidate()
    return (perf_counter() - start) / inner


def ratios(times: dict[str, list[float]], baseline: str) -> dict[str, Ratio]:
    """Each candidate's time over the baseline's, round by round."""
    if baseline not in times:
        raise ValueError(f"baseline {baseline!r} was not measured; choose one of {sorted(times)}")
    reference = np.asarray(times[baseline])
    return {name: ratio(np.asarray(values) / reference) for name, values in times.items()}


def ratio(per_round: NDArray[np.float64]) -> Ratio:
    """Quartiles of the per-round ratios (rounds,)."""
    low, median, high = np.quantile(per_round, (0.25, 0.5, 0.75))
    return Ratio(median=float(median), low=float(low), high=float(high))
