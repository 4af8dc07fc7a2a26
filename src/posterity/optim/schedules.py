"""Learning-rate schedules.

    lr(step) = base_lr * factor(t),    t = share of all steps done, in [0, 1)

    constant   1
    cosine     floor + (1 - floor) (1 + cos(pi t)) / 2
    step       drop^k, k the number of milestones that t has passed
    polynomial (1 + stretch t)^-power             Langevin dynamics' falling rate: 0.5 < power <= 1 (Welling and Teh)
    cyclic     c cycles; u = place in the cycle in [0, 1)
                 triangular   floor + (1 - floor) (1 - |2 u - 1|)             up, then down
                 cosine       floor + (1 - floor) (1 + cos(pi u)) / 2         restarts
    one-cycle  from `start` up to 1 over the first share `peak`, then down to `end`, both along half a cosine
    plateau    multiplied by `drop`, not below `floor`, when more than `patience` epochs in a row were without progress,
               as PyTorch's ReduceLROnPlateau does

A warm-up over a share w of the training ramps linearly, (t / w) * factor(0), and leaves the rest of the training
to the schedule, whose t then runs from 0 to 1. All but `plateau` are pure functions of t: they have no state to
lose. `plateau` keeps its state, which goes into checkpoints. By epoch, t is that of the epoch's first step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from posterity.core.errors import UsageError, unknown_name
from posterity.core.options import Option, check_options, options_of


class Schedule:
    """A factor on the base rate."""

    watches: ClassVar[bool] = False  # whether it follows a metric, which then may be another for each group

    def factor(self, progress: float) -> float:
        """The factor when a share `progress` of all steps is done."""
        raise NotImplementedError

    def observe(self, record: Mapping[str, Any]) -> None:
        """Look at an epoch's record; only `plateau` does."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of it."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""


@dataclass(frozen=True)
class Constant(Schedule):
    """Always the base rate."""

    def factor(self, progress: float) -> float:
        """1, always."""
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """From the base rate down to `floor` times it along half a cosine."""

    floor: float = 0.0

    def __post_init__(self) -> None:
        _check_shares(floor=self.floor)

    def factor(self, progress: float) -> float:
        """(1 + cos(pi t)) / 2 above the floor."""
        return _fall(progress, 1.0, self.floor)


@dataclass(frozen=True)
class Step(Schedule):
    """Multiplied by `drop` at each of the `milestones` (shares of the training)."""

    milestones: Sequence[float] = (0.5, 0.75)
    drop: float = 0.1

    def __post_init__(self) -> None:
        _check_shares(drop=self.drop, **{f"milestone {number}": m for number, m in enumerate(self.milestones, 1)})

    def factor(self, progress: float) -> float:
        """drop^k after k milestones."""
        return self.drop ** sum(progress >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """Falls as a power of the step."""

    stretch: float = 9.0
    power: float = 0.55

    def __post_init__(self) -> None:
        if not (self.stretch >= 0 and self.power >= 0):
            raise UsageError(f"a polynomial schedule falls: stretch {self.stretch} and power {self.power} must be >= 0")

    def factor(self, progress: float) -> float:
        """(1 + stretch t)^-power."""
        return float((1 + self.stretch * progress) ** -self.power)


@dataclass(frozen=True)
class Cyclic(Schedule):
    """`cycles` equal cycles between `floor` and 1."""

    cycles: int = 4
    floor: float = 0.0
    shape: str = "triangular"

    def __post_init__(self) -> None:
        _check_shares(floor=self.floor)
        if self.shape not in ("triangular", "cosine"):
            raise unknown_name("shape of a cycle", self.shape, ("triangular", "cosine"))
        if self.cycles < 1:
            raise UsageError(f"a cyclic schedule needs at least one cycle, not {self.cycles}")

    def factor(self, progress: float) -> float:
        """Up and down, or down and back."""
        place = (progress * self.cycles) % 1.0
        if self.shape == "cosine":
            return _fall(place, 1.0, self.floor)
        return self.floor + (1 - self.floor) * (1 - abs(2 * place - 1))


@dataclass(frozen=True)
class OneCycle(Schedule):
    """Up to the base rate over the first share `peak` of the training, then far below where it began."""

    peak: float = 0.3
    start: float = 0.04
    end: float = 1e-4

    def __post_init__(self) -> None:
        _check_shares(start=self.start, end=self.end)
        if not 0 < self.peak < 1:
            raise UsageError(f"one-cycle's peak is a share of the training between 0 and 1, not {self.peak}")

    def factor(self, progress: float) -> float:
        """Half a cosine up, half a cosine down."""
        if progress < self.peak:
            return _fall(progress / self.peak, self.start, 1.0)
        return _fall((progress - self.peak) / (1 - self.peak), 1.0, self.end)


@dataclass
class Plateau(Schedule):
    """Multiplied by `drop` after `patience` + 1 epochs without a better `metric`, down to `floor`.

    Better is by `threshold` times the best so far, whose sign does not matter (PyTorch's does).
    """

    watches = True

    metric: str = "nll"
    patience: int = 3
    drop: float = 0.5
    floor: float = 1e-3
    threshold: float = 1e-4
    best: float = field(default=math.inf, init=False)
    waited: int = field(default=0, init=False)
    current: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        _check_shares(drop=self.drop, floor=self.floor)
        if self.patience < 0 or self.threshold < 0:
            raise UsageError(
                f"a plateau needs a patience of at least 0 and a threshold of at least 0, not {self.patience} "
                f"and {self.threshold}"
            )

    def factor(self, progress: float) -> float:
        """As the metric has left it."""
        return self.current

    def observe(self, record: Mapping[str, Any]) -> None:
        """Count the epochs without a relative improvement by `threshold`."""
        if self.metric not in record:
            known = [key for key, value in record.items() if isinstance(value, float)]
            raise unknown_name("metric of a plateau schedule", self.metric, known)
        value = record[self.metric]
        if value < self.best - self.threshold * abs(self.best if math.isfinite(self.best) else 0.0):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited > self.patience:
            self.current, self.waited = max(self.current * self.drop, self.floor), 0

    def state(self) -> dict[str, Any]:
        """Best value, epochs waited, factor."""
        return {"best": self.best, "waited": self.waited, "current": self.current}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.best, self.waited, self.current = state["best"], state["waited"], state["current"]


@dataclass(frozen=True)
class Wrapped(Schedule):
    """Another schedule, seen otherwise."""

    schedule: Schedule

    def observe(self, record: Mapping[str, Any]) -> None:
        """Show the record to the schedule within."""
        self.schedule.observe(record)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of the schedule within."""
        return self.schedule.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.schedule.restore(state)


@dataclass(frozen=True)
class ByEpoch(Wrapped):
    """Changes only between the `epochs` epochs."""

    epochs: int

    def factor(self, progress: float) -> float:
        """That at the beginning of the epoch."""
        # The slack is rounding: step/steps may fall short of the epoch that begins with it.
        return self.schedule.factor(math.floor(progress * self.epochs + 1e-9) / self.epochs)


@dataclass(frozen=True)
class WarmUp(Wrapped):
    """A linear ramp over the first `share` of the training, then `schedule` over the rest."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"a warm-up takes a share of the training between 0 and 1, not {self.share}")

    def factor(self, progress: float) -> float:
        """The ramp to the schedule's first factor, then the schedule."""
        if progress < self.share:
            return progress / self.share * self.schedule.factor(0.0)
        return self.schedule.factor((progress - self.share) / (1 - self.share))


def _fall(place: float, high: float, low: float) -> float:
    """From `high` to `low` along half a cosine."""
    return low + (high - low) * 0.5 * (1 + math.cos(math.pi * place))


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "cosine": Cosine,
    "step": Step,
    "polynomial": Polynomial,
    "cyclic": Cyclic,
    "one-cycle": OneCycle,
    "plateau": Plateau,
}


# What every schedule can be told.
RHYTHM = {"warmup": Option(0.0, ("number",)), "by": Option("step", ("word",))}


def check_schedule_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown schedule, and options that it does not take or that are of another kind than it takes."""
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, SCHEDULES)
    if options:
        check_options(f"schedule '{name}'", options, {**options_of(SCHEDULES[name]), **RHYTHM})


def build_schedule(name: str, *, epochs: int | None = None, **options: Any) -> Schedule:
    """A schedule by its name.

    Beside the schedule's own `options` (its fields) there are `warmup`, the share of the training in which the rate is
    ramped up, and `by`: "step" or "epoch", for which the number of `epochs` must be known.
    """
    check_schedule_options(name, options)
    warmup, by = (options.pop(key, option.default) for key, option in RHYTHM.items())
    schedule = SCHEDULES[name](**options)
    if warmup:
        schedule = WarmUp(schedule, warmup)
    if by not in ("step", "epoch"):
        raise unknown_name("rhythm of a schedule", by, ("step", "epoch"))
    if by == "epoch":
        if epochs is None:
            raise UsageError("a schedule by epoch needs the number of epochs")
        schedule = ByEpoch(schedule, epochs)
    return schedule


def _check_shares(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UsageError(f"a schedule's {name} must lie in [0, 1], not {value}")
