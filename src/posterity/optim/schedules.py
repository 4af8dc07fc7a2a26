"""Learning-rate schedules: pure functions of the step, so that they have no state to lose.

lr(step) = base_lr * factor(t),    t = step / total steps in [0, 1)

constant  1
cosine    floor + (1 - floor) (1 + cos(pi t)) / 2
step      drop^k, k the number of milestones that t has passed
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posterity.core.errors import UsageError, unknown_name


class Schedule(Protocol):
    """A factor on the base rate."""

    def factor(self, progress: float) -> float:
        """The factor when a share `progress` of all steps is done."""
        ...


@dataclass(frozen=True)
class Constant:
    """Always the base rate."""

    def factor(self, progress: float) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """From the base rate down to `floor` times it along half a cosine."""

    floor: float = 0.0

    def factor(self, progress: float) -> float:
        """(1 + cos(pi t)) / 2 above the floor."""
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


@dataclass(frozen=True)
class Step:
    """Multiplied by `drop` at each of the `milestones` (shares of the training)."""

    milestones: Sequence[float] = (0.5, 0.75)
    drop: float = 0.1

    def factor(self, progress: float) -> float:
        """drop^k after k milestones."""
        return self.drop ** sum(progress >= milestone for milestone in self.milestones)


SCHEDULES: dict[str, type[Constant] | type[Cosine] | type[Step]] = {
    "constant": Constant,
    "cosine": Cosine,
    "step": Step,
}


def build_schedule(name: str, **options: Any) -> Schedule:
    """A schedule by its name."""
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, SCHEDULES)
    try:
        return SCHEDULES[name](**options)
    except TypeError as error:
        raise UsageError(f"schedule '{name}': {error}") from error
