"""Find a learning rate for a run: the range test on its network and data, and what it says in words."""

from __future__ import annotations

from typing import Any

from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import Run
from posterity.training.range_test import RangeTest, try_rates

EARLY = 100.0  # times the lowest rate: before it there are too few steps to fall


def study_range(run: Run, **limits: Any) -> RangeTest:
    """The range test of `run`; `limits` are the arguments of `range_test`."""
    train = build_data(run).train
    return try_rates(build_network(run, train), train, run, **limits)


def range_verdict(result: RangeTest, *, low: float, high: float) -> str:
    """What to do, in one line."""
    broke = "" if result.diverged is None else f"; it diverged at {result.diverged:.2g}"
    if result.suggestion is not None:
        return f"suggested learning rate: {result.suggestion:.2g}{broke}"
    attempts = ["a lower --temperature", "a larger --batch-size", "more --steps"]
    if result.diverged is None:
        attempts.insert(0, "a higher --high")
    elif result.diverged < EARLY * low:
        attempts.insert(0, "a lower --low")
    hint = f"{', '.join(attempts[:-1])} or {attempts[-1]}"
    return f"no clear fall of the {result.measure} between {low:.2g} and {high:.2g}{broke}: try {hint}"
