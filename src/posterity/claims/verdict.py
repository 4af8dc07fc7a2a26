"""How a claim is judged: effects with their intervals over seeds, held against bounds that were set beforehand.

    effect      mean of n values (a difference a seed, say) with its 95 % interval, mean ± t(n - 1) s / sqrt(n)
    check       what must hold of an effect. It holds, or fails, only where the whole interval says so; else it is open
    verdict     reproduced: all checks hold.   not reproduced: one fails at least.   undecided: the rest

What is computed, not sampled, is a single value: its interval is the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student
from typing_extensions import Self

from posterity.core.errors import UsageError
from posterity.experiments.results import Results

LEVEL = 0.95
HOLDS, FAILS, OPEN = "holds", "fails", "open"
REPRODUCED, NOT_REPRODUCED, UNDECIDED = "reproduced", "not reproduced", "undecided"


@dataclass(frozen=True)
class Effect:
    """A mean over `count` values, and its interval."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Effect:
        """Of values that were sampled: two at least, or the interval is without bounds."""
        found = np.array(list(values), dtype=np.float64)
        if not len(found) or not np.isfinite(found).all():
            return cls(math.nan, -math.inf, math.inf, len(found))
        mean = float(found.mean())
        if len(found) == 1:
            return cls(mean, -math.inf, math.inf, 1)
        half = float(student.ppf((1 + LEVEL) / 2, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found)))
        return cls(mean, mean - half, mean + half, len(found))

    @classmethod
    def exact(cls, value: float) -> Effect:
        """Of a number that depends on no seed."""
        return cls(value, value, value, 1)

    def __str__(self) -> str:
        """Mean and interval, to four digits."""
        if self.low == self.high:
            return f"{self.mean:.4g}"
        if math.isinf(self.high):
            return f"{self.mean:.4g}, no interval"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Check:
    """Something that must hold: `words` say what is measured, `wanted` what it must be, `outcome` what came of it."""

    words: str
    effect: Effect
    wanted: str
    outcome: str

    @classmethod
    def above(cls, words: str, effect: Effect, bound: float = 0.0) -> Self:
        """The effect is larger than the bound."""
        return cls(words, effect, f"above {bound:g}", _outcome(effect.low > bound, effect.high <= bound))

    @classmethod
    def below(cls, words: str, effect: Effect, bound: float = 0.0) -> Self:
        """The effect is smaller than the bound."""
        return cls(words, effect, f"below {bound:g}", _outcome(effect.high < bound, effect.low >= bound))

    @classmethod
    def within(cls, words: str, effect: Effect, low: float, high: float) -> Self:
        """The effect is between two bounds: nothing to speak of, if these are small."""
        inside = low < effect.low and effect.high < high
        return cls(words, effect, f"{low:g} to {high:g}", _outcome(inside, effect.high <= low or effect.low >= high))


def _outcome(holds: bool, fails: bool) -> str:
    return HOLDS if holds else FAILS if fails else OPEN


@dataclass(frozen=True)
class Verdict:
    """What the checks say together."""

    checks: Sequence[Check]

    def __post_init__(self) -> None:
        """A verdict without checks would be one that was typed."""
        if not self.checks:
            raise UsageError("a verdict needs a check at least")

    @property
    def word(self) -> str:
        """Reproduced, not reproduced, or undecided."""
        outcomes = {check.outcome for check in self.checks}
        return NOT_REPRODUCED if FAILS in outcomes else UNDECIDED if OPEN in outcomes else REPRODUCED


def differences(ours: Results, theirs: Results, metric: str, *, failed: float | None = None) -> Effect:
    """The metric of one group minus that of another, paired by seed and averaged over what else varies.

    A run without the metric (it diverged) counts as `failed`, or leaves the effect without bounds. So do runs that are
    the same in every seed: what was to make a difference never came into play, and nothing was tried.
    """
    one, other = (_by_seed(group, metric, failed) for group in (ours, theirs))
    if one.keys() != other.keys():
        raise UsageError(f"seeds {sorted(one)} and {sorted(other)} make no pairs")
    found = [one[seed] - other[seed] for seed in one]
    return Effect.of(found) if any(found) else Effect(0.0, -math.inf, math.inf, len(found))


def over_seeds(group: Results, metric: str, *, failed: float | None = None) -> Effect:
    """The metric of a group, a value a seed."""
    return Effect.of(_by_seed(group, metric, failed).values())


def _by_seed(group: Results, metric: str, failed: float | None) -> dict[int, float]:
    lost = math.nan if failed is None else failed
    found: dict[int, float] = {}
    for seed, rows in group.group_by("seed").items():
        numbers = [lost if value is None or not math.isfinite(value) else value for value in rows.column(metric)]
        found[seed] = float(np.mean(numbers))
    return found
