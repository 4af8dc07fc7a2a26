"""Averages the iterates of a training: snapshots every so many steps, an averaged network at its end.

    snapshots    after each step k with k mod average_every = 0 and k > average_start * (number of steps)
    restart      the iterate is moved to the average after each of them; the optimiser keeps its state

With validation data the average is scored after each epoch, too: val_average_nll, ... in the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any

from posterity.averaging import AVERAGES, SWA, reestimate_batch_norm
from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.storage import EpochRecord
from posterity.training.callbacks import Callback
from posterity.training.methods import Method

if TYPE_CHECKING:
    from posterity.training.loop import Training
    from posterity.training.settings import Settings


# Settings of averages, by the name that the average itself has for them.
OPTIONS = {"covariance": "covariance", "rank": "average_rank"}
OF_AVERAGES = ("average_start", "average_every", "average_restart", *OPTIONS.values())


class Averaging(Callback):
    """Takes the snapshots and, when the training has ended, leaves the averaged network in `training.averaged`."""

    def __init__(self, average: SWA, *, every: int, start: int, restart: bool) -> None:
        self.average, self.every, self.start, self.restart = average, every, start, restart

    @classmethod
    def of(cls, net: BayesianModule, settings: Settings, method: Method, batches: int) -> Averaging | None:
        """What the settings ask for, or the method does by itself; refused if it cannot be."""
        kind = settings.average or method.collects
        if kind is None:
            return None
        average = _build(kind, settings)
        average.check(net.posterior)
        if settings.average_restart and method.owns_sds and average.moves_sds:
            raise UsageError(
                f"the standard deviations of '{method.name}' follow from its own state, its curvature, which a restart "
                f"from those of '{kind}' does not change: take average 'swa', or no average_restart"
            )
        steps, every = settings.length * batches, settings.average_every or batches
        start = round(settings.average_start * steps)
        planned = steps // every - start // every
        if planned < average.needed:
            raise UsageError(
                f"averaging takes at least {_snapshots(average.needed)}; of this training's {steps} steps "
                f"{planned} come after step {start} and are multiples of {every}: train longer, or give a "
                "smaller average_every or average_start"
            )
        return cls(average, every=every, start=start, restart=settings.average_restart)

    def on_step_end(self, training: Training) -> None:
        """A snapshot, if it is time for one."""
        if training.step > self.start and training.step % self.every == 0:
            self.average.update(training.net)
            if self.restart:
                self.average.restart(training.net)

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """Score the average, and hand it over at the end."""
        if training.stopped and self.average.count < self.average.needed:
            record["warnings"].append(
                f"there is no average: it takes {_snapshots(self.average.needed)}, and the training ended with "
                f"{self.average.count} at step {training.step}; they are taken after step {self.start}: give a lower "
                "average_start"
            )
        if self.average.count < self.average.needed or not (training.stopped or training.val is not None):
            return
        averaged = self._network(training)
        if training.val is not None:
            record |= {f"val_average_{k}": v for k, v in training.validate(averaged).items()}
        if training.stopped:
            training.averaged = averaged

    def _network(self, training: Training) -> BayesianModule:
        averaged = self.average.network(training.net)
        batch_size, seed = training.plan.feed.batch_size, training.settings.seed
        reestimate_batch_norm(averaged, training.train.x, batch_size=batch_size, seed=seed)
        return averaged

    def state(self) -> dict[str, Any]:
        """The running averages."""
        return self.average.state()

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.average.restore(state)


def _build(kind: str, settings: Settings) -> SWA:
    """The average of that kind with its options; what it does not take is refused."""
    make = AVERAGES[kind]
    taken = signature(make).parameters
    if not make.restarts:
        _refuse(settings, ("average_restart",), f"goes with average 'swa' or 'hwa': {kind} are kept as they are")
    others = [name for option, name in OPTIONS.items() if option not in taken]
    _refuse(settings, others, f"goes with average 'hwa', not with '{kind}'")
    average = make(**{option: getattr(settings, name) for option, name in OPTIONS.items() if option in taken})
    if not average.keeps_last:
        _refuse(settings, ("average_rank",), f"goes with covariance 'low_rank', not with '{settings.covariance}'")
    return average


def _refuse(settings: Settings, names: Iterable[str], why: str) -> None:
    for name in names:
        if not settings.is_default(name):
            raise UsageError(f"{name} ({getattr(settings, name)!r}) {why}")


def _snapshots(number: int) -> str:
    return f"{number} snapshot{'s' if number > 1 else ''}"
