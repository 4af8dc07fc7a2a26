"""Warming: the temperature of a small regression, cold at first and warm in the end.

    T = cold^(1 - v) warm^v,    v = (u - FROM) / (TO - FROM), within [0, 1],    u the share of the training that is done
    cold = COLD min(1, AMPLE N / p)
    warm = C L^A (N / p)^B, from LEAST to MOST
    L  the share of the targets' variance that is left, a moving average over the training's steps
    N  weights, p  data

A mean-field network that begins warm gives hidden units up before it has found a use for them: their weights fall to
the prior, where their outgoing weights see nothing but noise, and they do not come back when it cools. One that begins
cold has all of them at work; the warmth then takes away what follows single data. Noisy targets want more of it, and so
do few data for a weight; where there are many of them no unit is given up without cause, and what the noise of the
weights costs early in the training is not made good any more: then it begins colder still. C and the exponents were
fitted by hand to six tables (docs/first_results.md).

For regressions with learnt noise and at most MOST_WEIGHTS weights; others follow their KL (objectives.balance).
Limits: u <= FROM is cold, u >= TO is `warm`; exact data, L -> 0, or very many: LEAST, where sds still arrive in time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posterity.bayesian import BayesianModule
from posterity.likelihoods import Likelihood, Prediction
from posterity.objectives import Loss
from posterity.objectives.tempering import Auto
from posterity.training.course import Course, loss_of
from posterity.training.leverage import MOST_WEIGHTS
from posterity.training.settings import Settings

if TYPE_CHECKING:
    from posterity.data import Batch
    from posterity.training.loop import Training

A, B, C = 1 / 3, 3 / 4, 0.35
COLD, LEAST, MOST = 0.01, 0.1, 0.5
FROM, TO = 0.3, 0.7
AMPLE = 4.0  # data for a weight: with more of them it begins colder than COLD


def is_small(net: BayesianModule, likelihood: Likelihood) -> bool:
    """Whether it is a small regression: with learnt noise, and few weights."""
    return likelihood.settles and net.num_weights <= MOST_WEIGHTS


def warms(net: BayesianModule, likelihood: Likelihood, settings: Settings) -> bool:
    """Whether `auto` means this course."""
    tempered = Auto() == settings.temperature_rule and settings.kl_decay > 0
    return is_small(net, likelihood) and net.posterior.random and tempered


def warmth(left: float, weights_per_datum: float) -> float:
    """The temperature in the end, with this share of the variance left."""
    return min(MOST, max(LEAST, float(C * left**A * weights_per_datum**B)))


class Warming(Course):
    """The course of a training of so many epochs."""

    def __init__(self, epochs: int, weights_per_datum: float) -> None:
        super().__init__(self._temperature)
        self.epochs, self.weights_per_datum = epochs, weights_per_datum
        self.left = math.nan

    def _temperature(self, done: float) -> float:
        way = min(1.0, max(0.0, (done / self.epochs - FROM) / (TO - FROM)))
        warm = self.cold if math.isnan(self.left) else warmth(self.left, self.weights_per_datum)
        return float(self.cold ** (1 - way) * warm**way)

    @property
    def cold(self) -> float:
        """The temperature at first."""
        return COLD * min(1.0, AMPLE * self.weights_per_datum)

    def words(self, epochs: int) -> str:
        """Where it starts."""
        return f"{self.cold:.3g} at first, up to {MOST:g} in the end, by the data"

    def observe(self, training: Training, loss: Loss, prediction: Prediction, batch: Batch, share: float) -> None:
        """What is left of the variance in this step."""
        now = loss_of(training, loss, prediction, batch)
        if math.isfinite(now):
            self.left = now if math.isnan(self.left) else self.left + share * (now - self.left)

    def state(self) -> dict[str, Any]:
        """The average; nothing before there is one."""
        return {} if math.isnan(self.left) else {"left": self.left}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.left = state.get("left", math.nan)
