"""Descents: two temperatures in one training, and the data choose between what they lead to.

    epochs 1 .. e     temperature HIGH, the rates' schedules run from 0 to 1           e = FIRST of all
    epochs e + 1 ..   temperature LOW, from there on, the schedules once more

Each end is judged by its cross-validated log-likelihood (`end`: the log density of each training datum under the
network as it would be without it, by leverages). The weights of the first are kept unless the second is better by more
than MARGIN: of two that predict alike the one that has followed its data less.

A temperature that is right for a table of data cannot be read off its size: noisy data want ten times what clean data
want (docs/benchmarks/defaults.md), and a factor of ten is about as near as one has to be. For regressions whose
leverages are exact, since others are judged too well or too badly.
Limits: fewer than LEAST_STEPS, an average, or a schedule of one's own: no descents, but the balance.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from posterity.bayesian import BayesianModule
from posterity.likelihoods import Likelihood
from posterity.objectives.tempering import Auto
from posterity.training.course import Course
from posterity.training.ending import cross_validated
from posterity.training.leverage import MOST_WEIGHTS
from posterity.training.ranks import current_ranks

if TYPE_CHECKING:
    from posterity.training.loop import Training
    from posterity.training.settings import Settings

HIGH, LOW = 0.1, 0.01
FIRST = 1 / 3
MARGIN = 0.01  # nats a datum
LEAST_EPOCHS, LEAST_STEPS = 3, 1000  # a third of which is enough to get somewhere
# Who gives one of these has a course of rates, or a choice of weights, of their own.
TOLD = ("schedule", "schedule_options", "schedule_sd", "schedule_sd_options", "warmup", "alternate", "patience")


def descends(
    net: BayesianModule, likelihood: Likelihood, settings: Settings, *, averages: bool, num_batches: int
) -> bool:
    """Whether a training of that kind goes down twice; one whose length is not given is long enough."""
    told = any(not settings.is_default(name) for name in TOLD)
    plain = Auto() == settings.temperature_rule and not (averages or told) and settings.kl_decay > 0
    known = likelihood.settles and net.posterior.random and net.num_weights <= MOST_WEIGHTS
    long = settings.epochs is None or settings.epochs >= max(LEAST_EPOCHS, LEAST_STEPS / num_batches)
    return plain and known and long


class Descents(Course):
    """The course of a training of so many epochs."""

    def __init__(self, epochs: int) -> None:
        super().__init__(lambda done: HIGH if done < self.first else LOW)
        self.epochs, self.first = epochs, max(1, round(FIRST * epochs))
        self.kept: dict[str, Any] = {}

    def words(self, epochs: int) -> str:
        """Both."""
        return f"{HIGH:g} or {LOW:g}, by the data"

    def progress(self, share: float) -> float:
        """The share of the descent that it is on."""
        turn = self.first / self.epochs
        return share / turn if share < turn else (share - turn) / (1 - turn)

    def end_epoch(self, training: Training) -> None:
        """Keep where the first one leads to."""
        if training.epoch == self.first:
            weights = copy.deepcopy(dict(training.net.state_dict()))
            self.kept = {"score": self._score(training, HIGH), "net": weights}

    def settle(self, training: Training) -> dict[str, Any]:
        """The better weights."""
        if not self.kept:
            return super().settle(training)
        high, low = self.kept["score"], self._score(training, LOW)
        better = LOW if low > high + MARGIN else HIGH
        if better == HIGH:
            training.net.load_state_dict(self.kept["net"])
        return {"temperature": better, "temperatures": {f"{HIGH:g}": high, f"{LOW:g}": low}}

    def _score(self, training: Training, temperature: float) -> float:
        net, train, seed = training.net, training.train, training.settings.seed
        score = cross_validated(net, train, num_data=training.num_data, temperature=temperature, seed=seed)
        ranks = current_ranks()
        return score if ranks is None else ranks.agree(score)

    def state(self) -> dict[str, Any]:
        """What is kept."""
        return {"kept": self.kept}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.kept = state.get("kept", {})
