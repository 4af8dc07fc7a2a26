"""Learning-rate range test (Smith 2017): raise the rate exponentially, and see where the loss falls and breaks.

    lr_i = low (high / low)^(i / (steps - 1)),    smoothed_i = bias-corrected moving average of the loss

It stops when the smoothed loss exceeds DIVERGED times its range above the best, or is not finite. The suggestion
is the rate at which the smoothed loss falls most steeply in log(lr). The network is left as it was.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch

from posterity.bayesian import BayesianModule
from posterity.core.errors import NonFiniteError, UsageError, unknown_name
from posterity.core.randomness import derive
from posterity.objectives import Loss
from posterity.objectives.tempering import as_rule
from posterity.training.callbacks import Callback
from posterity.training.fit import Data, as_dataset, check_fit, default_likelihood
from posterity.training.loop import Training
from posterity.training.settings import Settings

DIVERGED = 1.0
SMOOTHING = 0.9
# The test sets the rate itself, and every group steps.
PLAIN: dict[str, Any] = {
    "schedule": "constant",
    "schedule_options": {},
    "schedule_sd": None,
    "schedule_sd_options": {},
    "alternate": None,
    "patience": None,
}


@dataclass(frozen=True)
class RangeTest:
    """Rates tried, losses seen, and the rate to take; `diverged` is the rate at which it broke, if it did."""

    group: str
    rates: list[float]
    losses: list[float]
    smoothed: list[float]
    suggestion: float
    diverged: float | None


def range_test(
    net: BayesianModule,
    train: Data,
    *,
    group: str = "all",
    low: float = 1e-6,
    high: float = 1.0,
    steps: int = 100,
    **settings: Any,
) -> RangeTest:
    """Test rates from `low` to `high` for all groups, or for one ("mean", "sd") while the others stand still."""
    if not (0 < low < high and steps >= 10):
        raise UsageError(f"a range test goes from low to high in at least 10 steps, not {low} to {high} in {steps}")
    data = as_dataset(train)
    copied = copy.deepcopy(net)
    copied.likelihood = copied.likelihood or default_likelihood(data).to(copied.posterior.mean)
    check_fit(copied, copied.likelihood, data)
    temperature = as_rule(
        settings.get("temperature", Settings.temperature)
    ).settled  # a ramp would look like divergence
    options = Settings.of(**{**settings, **PLAIN, "epochs": steps, "temperature": temperature})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(options.seed, "modules"))
        training = Training(copied, copied.likelihood, data, None, options)
        chosen = [g for g in training.groups if group in ("all", g.name)]
        if not chosen:
            raise unknown_name("group", group, ["all", *(g.name for g in training.groups)])
        training.groups = chosen
        return _run(training, group, [low * (high / low) ** (i / (steps - 1)) for i in range(steps)])


def _run(training: Training, group: str, rates: list[float]) -> RangeTest:
    losses: list[float] = []
    smoothed: list[float] = []
    average, broke = 0.0, None
    indices = _endless(training)
    watch = _LossWatch()
    training.callbacks.append(watch)
    for number, rate in enumerate(rates, start=1):
        for part in training.groups:
            part.base_lr = rate
        try:
            training.train_step(next(indices))
        except NonFiniteError:
            broke = rate
            break
        value = watch.value
        average = SMOOTHING * average + (1 - SMOOTHING) * value
        losses.append(value)
        smoothed.append(average / (1 - SMOOTHING**number))
        best = min(smoothed)
        if smoothed[-1] > best + DIVERGED * max(abs(smoothed[0] - best), 0.1 * abs(best)) and number > 10:
            broke = rate
            break
    tried = rates[: len(losses)]
    return RangeTest(group, tried, losses, smoothed, _steepest(tried, smoothed), broke)


class _LossWatch(Callback):
    value = math.nan

    def on_step(self, training: Training, loss: Loss) -> None:
        self.value = loss.item()


def _endless(training: Training) -> Any:
    while True:
        yield from training.batches


def _steepest(rates: list[float], smoothed: list[float]) -> float:
    """The rate of the steepest fall before the minimum; a tenth of the best rate if there is no fall."""
    if len(smoothed) < 3:
        raise UsageError("the loss is not finite from the start: begin at a lower rate")
    end = max(range(len(smoothed)), key=lambda i: -smoothed[i])
    slopes = [
        (smoothed[i + 1] - smoothed[i - 1]) / math.log(rates[i + 1] / rates[i - 1])
        for i in range(1, min(end, len(smoothed) - 2) + 1)
    ]
    if not slopes or min(slopes) >= 0:
        return rates[end] / 10
    return rates[1 + slopes.index(min(slopes))]
