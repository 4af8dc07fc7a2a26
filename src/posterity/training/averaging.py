"""Averages the iterates of a training: snapshots every so many steps, an averaged network at its end.

    snapshots    after each step k with k mod average_every = 0 and k > average_start * (number of steps)
    restart      the iterate is moved to the average after each of them; the optimiser keeps its state

With validation data the average is scored after each epoch, too: val_average_nll, ... in the history.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

from posterity.averaging import AVERAGES, HWA, SWA, reestimate_batch_norm
from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.metrics import brief_score
from posterity.posteriors import POSTERIORS
from posterity.saving import describe
from posterity.training.callbacks import Callback
from posterity.training.history import Record
from posterity.training.settings import Settings

if TYPE_CHECKING:
    from posterity.training.loop import Training


class Averaging(Callback):
    """Takes the snapshots and, when the training has ended, leaves the averaged network in `training.averaged`."""

    def __init__(self, net: BayesianModule, settings: Settings, num_data: int) -> None:
        assert settings.averaging is not None
        self.average: SWA
        if AVERAGES[settings.averaging] is HWA:
            self.average = HWA(covariance=settings.covariance, rank=settings.average_rank)
        else:
            self.average = AVERAGES[settings.averaging]()
        self.average.check(net.posterior)
        if settings.average_restart and settings.optimizer == "ivon" and AVERAGES[settings.averaging] is HWA:
            raise UsageError(
                "IVON's standard deviations follow from its curvature, which a restart from HWA's does not change: "
                "take average 'swa', or no average_restart"
            )
        self.restart = settings.average_restart
        batches = math.ceil(num_data / settings.batch_size)
        self.every = settings.average_every or batches
        steps = settings.epochs * batches
        self.start = round(settings.average_start * steps)
        planned = steps // self.every - self.start // self.every
        if planned < self.average.needed:
            raise UsageError(
                f"averaging takes at least {_snapshots(self.average.needed)}; of this training's {steps} steps "
                f"{planned} come after step {self.start} and are multiples of {self.every}: train longer, or give a "
                "smaller average_every or average_start"
            )

    def on_step_end(self, training: Training) -> None:
        """A snapshot, if it is time for one."""
        if training.step > self.start and training.step % self.every == 0:
            self.average.update(training.net)
            if self.restart:
                self.average.restart(training.net)

    def on_epoch(self, training: Training, record: Record) -> None:
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
            settings = training.settings
            seed = derive(settings.seed, f"validation/{training.epoch}")
            prediction = averaged.predict(training.val.x, settings.val_samples, seed=seed)
            record |= {
                f"val_average_{k}": v for k, v in brief_score(prediction, training.val.y, training.val.task).items()
            }
        if training.stopped:
            training.averaged = averaged

    def _network(self, training: Training) -> BayesianModule:
        averaged = self.average.network(training.net)
        settings = training.settings
        reestimate_batch_norm(averaged, training.train.x, batch_size=settings.batch_size, seed=settings.seed)
        return averaged

    def state(self) -> dict[str, Any]:
        """The running averages."""
        return self.average.state()

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.average.restore(state)


def _snapshots(number: int) -> str:
    return f"{number} snapshot{'s' if number > 1 else ''}"


def averaged_state(averaged: BayesianModule | None) -> dict[str, Any] | None:
    """What a checkpoint keeps of the averaged network."""
    return None if averaged is None else {"network": describe(averaged), "net": averaged.state_dict()}


def restored_average(net: BayesianModule, state: dict[str, Any] | None) -> BayesianModule | None:
    """The inverse of `averaged_state`, for the average of `net`'s training."""
    if state is None:
        return None
    averaged = copy.deepcopy(net)
    description = state["network"]["posterior"]
    averaged.posterior = POSTERIORS[description["kind"]].empty(net.num_weights, **description).to(net.posterior.mean)
    averaged.load_state_dict(state["net"])
    return averaged
