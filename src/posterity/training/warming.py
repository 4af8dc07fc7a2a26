"""Warming: the temperature of a regression with learnt noise, cold at first, then up to where left-out data want it.

    T = cold^(1 - v) WARMEST^v,    v = (u - FROM) / (TO - FROM), within [0, 1],    u the share of the training done
    cold = COLD

until the density of data that are left out falls, or has not risen for PATIENCE looks; then the lowest T at which it
was within NEAR / sqrt(p) of its best, about the error of a difference. LOOKS times in a training that density is
estimated from the training's own rows (training.left_out), at the mean of q's means since the last look, which steps
shake less; it is smoothed by the REACH looks on either side. It falls where it is below its best by FALL and twice the
error of a difference of such means; the error of a look is told by second differences, as the density is smooth in
log T. A network that follows its rows more than HALF of the way is no judge of data left out: it goes on.
The lowest T, since the density also rises as the training goes on, and a network lags behind its temperature: both make
what is warm look better than it is.

A mean-field network that begins warm gives hidden units up before it has found a use for them: their weights fall to
the prior, where their outgoing weights see nothing but noise, and they do not come back when it cools. One that begins
cold has all of them at work; the warmth then takes away what follows single data. What it took beyond the T that is
chosen would not come back either: the weights are put back to what they were there.

With more than AMPLE data p for each of the N weights no unit is given up without cause, and left-out data hardly tell
one temperature from another. What the noise of the weights costs early in the training is not made good any more, so
that it begins colder still, and nothing is looked at:
    T = cold^(1 - v) MILD^v,    cold = COLD AMPLE N / p

At COLD the KL can be too much all the same: with few data for a function that turns often a network gives all of its
units up. Where it follows nothing (a noise of GIVEN_UP of the targets' spread, a leverage of at most IDLE) at half of
FROM, or at FROM, it begins again with its first weights, ten times as cold. To begin colder wherever data are few would
not do: a network that follows its rows by heart is no judge of the warmth that it needs.

A cold network could learn its rows by heart, and a noise that is their residuals' would vanish and hold it there,
however warm it became. So the noise is at least that of the last look, RSS / (n - degrees of freedom).

For regressions whose leverages can be computed (training.leverage); others follow their KL (objectives.balance).
Limits: u <= FROM is cold; WARMEST = 1 is Bayes' rule, which nothing exceeds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.likelihoods import Likelihood
from posterity.objectives import Loss
from posterity.objectives.tempering import Auto
from posterity.training.course import Course
from posterity.training.left_out import LeftOut, look
from posterity.training.leverage import MOST_WEIGHTS, has_leverages
from posterity.training.settings import Settings

if TYPE_CHECKING:
    from posterity.data import Batch
    from posterity.training.loop import Training

COLD, MILD, WARMEST = 0.01, 0.1, 1.0
FROM, TO = 0.2, 0.8
AMPLE = 4.0  # data for a weight
GIVEN_UP, IDLE = 0.9, 0.1
COLDER, BEGINNINGS = 0.1, 3
LOOKS = 100  # in a training; half as many where nothing is to be decided
REACH, PATIENCE = 2, 8  # looks
FALL, NEAR = 0.02, 0.25  # nats a row
HALF = 0.5
MOST_KEPT = 2**17  # weights, which are kept for up to 60 looks: some 60 megabytes


def is_small(net: BayesianModule, likelihood: Likelihood) -> bool:
    """Whether it is a small regression: with learnt noise, and few weights."""
    return likelihood.settles and net.num_weights <= MOST_WEIGHTS


def warms(net: BayesianModule, likelihood: Likelihood, settings: Settings, num_targets: int) -> bool:
    """Whether `auto` means this course, with so many targets in all rows together."""
    tempered = Auto() == settings.temperature_rule and settings.kl_decay > 0
    within = has_leverages(net.num_weights, num_targets) and net.num_weights <= MOST_KEPT
    return likelihood.settles and within and net.posterior.random and tempered


class Warming(Course):
    """The course of a training of so many epochs."""

    def __init__(self, epochs: int, weights_per_datum: float) -> None:
        super().__init__(self._temperature)
        self.epochs = epochs
        self.looks = AMPLE * weights_per_datum >= 1
        self.cold = COLD * min(1.0, AMPLE * weights_per_datum)
        self.warmest = WARMEST if self.looks else MILD
        self.chosen = math.nan
        self.temperatures: list[float] = []  # of the looks on the way up
        self.densities: list[float] = []
        self.kept: list[list[Tensor]] = []  # all that is trained, as it was then
        self.beginnings = 1
        self.first: list[Tensor] = []  # all that is trained, after one step, while it may begin again
        self.steps, self.mean = 0, torch.zeros(0)  # since the last look, and the mean of q's means in them

    def _temperature(self, done: float) -> float:
        if not math.isnan(self.chosen):
            return self.chosen
        way = min(1.0, max(0.0, (done / self.epochs - FROM) / (TO - FROM)))
        return float(self.cold ** (1 - way) * self.warmest**way)

    def words(self, epochs: int) -> str:
        """Where it starts, and where it may lead to."""
        up = f"{self.cold:.3g} at first, up to {self.warmest:g}"
        return f"{up} at most, by what data left out would show" if self.looks else up

    def observe(self, training: Training, loss: Loss, answers: Tensor, batch: Batch, share: float) -> None:
        """Look, if it is time to, and choose, if there is enough to be seen."""
        if not self.looks:
            return
        mean = training.net.posterior.mean.detach()
        if training.step == 1 and not training.settings.alternate:
            self.first = [p.detach().clone() for p in _trained(training)]
        self.steps += 1
        self.mean = mean.clone() if self.steps == 1 else self.mean.lerp_(mean, 1 / self.steps)
        done, every = training.step / training.total_steps, max(1, training.total_steps // LOOKS)
        rising = done >= FROM and math.isnan(self.chosen)
        if training.step % (every if rising else 2 * every):
            return
        now = training.temperature_at(training.step)
        seed, data = training.settings.seed, training.train
        found = look(self.mean, training.net, data, num_data=training.num_data, temperature=now, seed=seed)
        self.floor, self.steps = found.noise, 0
        if self.first and done >= self.beginnings * FROM / (BEGINNINGS - 1) and self._begins_again(training, found):
            return
        if not rising:
            return
        if found.leverage <= HALF:
            self.temperatures.append(now)
            self.densities.append(found.density)
            if not training.settings.alternate:  # else groups stand still in their turn
                own = training.net.posterior.mean
                self.kept.append([self.mean if p is own else p.detach().clone() for p in _trained(training)])
        if done >= TO or falls(self.densities):
            self._choose(training)

    @torch.no_grad()
    def _begins_again(self, training: Training, found: LeftOut) -> bool:
        """If it has given up; whether it has."""
        spread = training.target_variance.sqrt().to(found.noise)
        given_up = found.leverage <= IDLE and bool((found.noise >= GIVEN_UP * spread).all())
        if given_up:
            self.cold, self.floor = COLDER * self.cold, None
            for own, first in zip(_trained(training), self.first, strict=True):
                own.copy_(first)
        self.beginnings += 1
        if self.beginnings >= BEGINNINGS:
            self.first = []
        return given_up

    @torch.no_grad()
    def _choose(self, training: Training) -> None:
        self.chosen = self.warmest
        if self.densities:
            at = choice(self.densities, NEAR / math.sqrt(training.num_data))
            self.chosen = self.temperatures[at]
            if self.kept:
                for own, kept in zip(_trained(training), self.kept[at], strict=True):
                    own.copy_(kept)
        self.temperatures, self.densities, self.kept = [], [], []

    def state(self) -> dict[str, Any]:
        """What was seen, what was chosen, and what was found by the last look and since."""
        return {
            "chosen": None if math.isnan(self.chosen) else self.chosen,
            "temperatures": self.temperatures,
            "densities": self.densities,
            "kept": self.kept,
            "cold": self.cold,
            "beginnings": self.beginnings,
            "first": self.first,
            "floor": self.floor,
            "steps": self.steps,
            "mean": self.mean,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`; nothing of one from before there was such a course."""
        if "chosen" not in state:
            return
        self.chosen = math.nan if state["chosen"] is None else state["chosen"]
        self.temperatures, self.densities = list(state["temperatures"]), list(state["densities"])
        self.kept, self.floor = list(state["kept"]), state["floor"]
        self.cold, self.beginnings = state.get("cold", self.cold), state.get("beginnings", BEGINNINGS)
        self.first = list(state.get("first", []))
        self.steps, self.mean = state["steps"], state["mean"].clone()


def _trained(training: Training) -> list[Tensor]:
    return [parameter for group in training.groups for parameter in group.parameters]


def smoothed(densities: list[float]) -> list[float]:
    """Each the mean of those around it."""
    parts = [densities[max(0, at - REACH) : at + REACH + 1] for at in range(len(densities))]
    return [sum(part) / len(part) for part in parts]


def error(densities: list[float]) -> float:
    """The sd of a density around a smooth curve, from the mean size of second differences, sqrt(6) times as large."""
    seconds = [abs(a - 2 * b + c) for a, b, c in zip(densities, densities[1:], densities[2:], strict=False)]
    return math.sqrt(math.pi / 2 / 6) * sum(seconds) / len(seconds) if seconds else 0.0


def falls(densities: list[float]) -> bool:
    """Whether they are past their best: see the header."""
    means = smoothed(densities)[:-REACH]  # those that have all their looks
    if len(means) <= REACH:
        return False
    best = max(means)
    late = len(means) - 1 - means.index(best) > PATIENCE
    return late or means[-1] < best - FALL - 2 * error(densities) * math.sqrt(2 / (2 * REACH + 1))


def choice(densities: list[float], near: float) -> int:
    """The first that is near to the best."""
    means = smoothed(densities)
    return next(at for at, mean in enumerate(means) if mean >= max(means) - near)
