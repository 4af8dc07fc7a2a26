"""Learning-rate range test (Smith 2017): raise the rate exponentially, and see where the loss falls and breaks.

    lr_i = low (high / low)^(i / (steps - 1))
    smoothed_i = median of the losses within a twentieth of the steps on either side of i (a window of w losses)
    fall = median of the first w losses - least smoothed,    noise = 1.25 sqrt(2 / w) sd of single losses

The suggestion is the rate at which half of the fall is done (where a sigmoid is steepest), and at most a quarter of the
rate at which it broke. There is none unless the fall exceeds CLEAR times the noise, which is that of the difference of
two medians. The sd is that of differences of neighbours, robustly, divided by sqrt(2).

It breaks when the loss is not finite, or the median of the last few exceeds the best such median by more than the fall,
a tenth of its size, and what noise can do. What is looked at is the nll, which tells whether anything is learnt: the
KL, often by far the greater part of the loss, falls most at rates that only let the standard deviations grow (with
Langevin dynamics it rises). Where the standard deviations move alone it is the whole loss. The network stays as it was.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from typing_extensions import Unpack

from posterity.bayesian import BayesianModule
from posterity.core.errors import NonFiniteError, UsageError, unknown_name
from posterity.core.randomness import derive
from posterity.objectives import Loss
from posterity.training.callbacks import Callback
from posterity.training.fitting_data import Data
from posterity.training.groups import SD
from posterity.training.keywords import SettingsKeywords
from posterity.training.loop import Training
from posterity.training.plan import plan
from posterity.training.settings import Settings

CLEAR = 5.0
BREAK = 10.0  # in sds of single losses
LAST = 5  # losses in the median that tells a break
MARGIN = 4.0  # between the suggestion and the break
# The test sets the rate itself, every group steps, and nothing is averaged; a ramp would look like divergence.
PLAIN: dict[str, Any] = {
    name: Settings.model_fields[name].default
    for name in (
        "schedule_options", "schedule_sd", "schedule_sd_options", "warmup", "alternate", "patience", "average",
        "average_start", "average_every", "average_restart", "covariance", "average_rank",
        "temperature_warmup", "temperature_warmup_shape",
    )
} | {"schedule": "constant"}  # fmt: skip


@dataclass(frozen=True)
class RangeTest:
    """Rates tried, losses seen (`measure` says which), and the rate to take, None if no fall is clear.

    `measure` is "nll", or "loss" for the whole of it; `diverged` is the rate at which it broke, if it did.
    """

    group: str
    measure: str
    rates: list[float]
    losses: list[float]
    smoothed: list[float]
    suggestion: float | None
    diverged: float | None


def range_test(
    net: BayesianModule,
    train: Data,
    *,
    group: str = "all",
    low: float = 1e-6,
    high: float = 1.0,
    steps: int = 100,
    **settings: Unpack[SettingsKeywords],
) -> RangeTest:
    """Test rates from `low` to `high` for all groups, or for one ("mean", "sd") while the others stand still."""
    return try_rates(net, train, Settings.of(**settings), group=group, low=low, high=high, steps=steps)


def try_rates(
    net: BayesianModule, train: Data, settings: Settings, *, group: str, low: float, high: float, steps: int
) -> RangeTest:
    """The range test of a training with these settings."""
    if not (0 < low < high and steps >= 10):
        raise UsageError(f"a range test goes from low to high in at least 10 steps, not {low} to {high} in {steps}")
    copied = copy.deepcopy(net)
    planned = plan(copied, train, None, settings.model_copy(update={**PLAIN, "epochs": steps}))
    copied = planned.subject.net  # an ensemble's first member: all are trained at one rate
    chosen = [g for g in planned.groups if group in ("all", g.name)]
    if not chosen:
        raise unknown_name("group", group, ["all", *(g.name for g in planned.groups)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(settings.seed, "modules"))
        training = Training(copied, planned)
        training.groups = chosen
        return _run(training, group, [low * (high / low) ** (i / (steps - 1)) for i in range(steps)])


def _run(training: Training, group: str, rates: list[float]) -> RangeTest:
    indices = _endless(training)
    watch = _LossWatch("loss" if group == SD else "nll")
    training.callbacks = [watch]
    losses, broke = watch.values, None
    for rate in rates:
        for part in training.groups:
            part.base_lr = rate
        try:
            training.train_step(next(indices))
        except NonFiniteError:
            broke = len(losses)
        else:
            broke = broken(losses)
        if broke is not None:
            break
    if not losses:
        raise UsageError("the loss is not finite from the start: begin with other weights or other data")
    half_width = max(2, len(rates) // 20)
    smoothed = running_median(losses, half_width)
    diverged = None if broke is None else rates[broke]
    return RangeTest(
        group, watch.measure, rates[: len(losses)], losses, smoothed, suggest(rates, losses[:broke], diverged), diverged
    )


class _LossWatch(Callback):
    def __init__(self, measure: str) -> None:
        self.measure = measure
        self.values: list[float] = []

    def on_step(self, training: Training, loss: Loss) -> None:
        self.values.append(loss.item() if self.measure == "loss" else loss.nll.item())


def _endless(training: Training) -> Any:
    while True:
        yield from training.batches


def running_median(values: Sequence[float], half_width: int) -> list[float]:
    """The median of each value and up to `half_width` on either side."""
    return [median(values[max(0, i - half_width) : i + half_width + 1]) for i in range(len(values))]


def broken(losses: Sequence[float]) -> int | None:
    """The place of the first of the last losses that broke away, if they did."""
    if len(losses) < 3 * LAST:
        return None
    levels = running_median(losses, LAST // 2)[LAST // 2 : -(LAST // 2)]
    start, best = levels[0], min(levels)
    limit = best + max(start - best, 0.1 * abs(best), BREAK * _scatter(losses))
    if levels[-1] <= limit:
        return None
    return next(i for i in range(len(losses) - LAST, len(losses)) if losses[i] > limit)


def suggest(rates: Sequence[float], losses: Sequence[float], diverged: float | None = None) -> float | None:
    """The rate at which half of the losses' fall is done, if it is clear; `losses` end before they break."""
    half_width = max(2, len(rates) // 20)
    window = 2 * half_width + 1
    if len(losses) < 2 * window:
        return None
    smoothed = running_median(losses, half_width)
    start, best = smoothed[half_width], min(smoothed[half_width:])
    noise = 1.25 * math.sqrt(2 / window) * _scatter(losses)
    if not start - best > CLEAR * noise:
        return None
    end = smoothed.index(best, half_width)
    half = max(i for i in range(half_width, end) if smoothed[i] >= (start + best) / 2)
    return rates[half] if diverged is None else max(rates[0], min(rates[half], diverged / MARGIN))


def _scatter(losses: Sequence[float]) -> float:
    """The sd of single losses, from the differences of neighbours: a trend, or a few wild ones, hardly count."""
    return 1.4826 / math.sqrt(2) * median(abs(b - a) for a, b in pairwise(losses))
