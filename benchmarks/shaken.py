"""Whether a number is that of a training, on a processor that rounds differently.

A training can make much of a rounding: its nll may be another by a tenth after an epoch. So a number that does not come
out again is held against those of trainings whose first weights are shaken, each moved up or down by one rounding:

    |log x - mean log y| <= t sd(log y) sqrt(1 + 1/n),    t the quantile of Student's t of n - 1

which holds for all but ODDS of numbers that are one more of theirs, if their logarithms are normal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from posterity.training import Callback
from posterity.training.loop import Training

SHAKEN = 7  # trainings beside the one as it is
ODDS = 1e-4
ROUNDING = 2**-23  # of single precision
NEAR = 2e-3


@torch.no_grad()
def shake(weights: Iterable[Tensor], seed: int) -> None:
    """Move each up or down by a rounding."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in weights:
        tensor.mul_(1 + ROUNDING * (2 * torch.randint(0, 2, tensor.shape, generator=generator) - 1))


class Shaken(Callback):
    """A training whose first weights are."""

    kept = False

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_start(self, training: Training) -> None:
        """Shake the means."""
        shake([training.net.posterior.mean], self.seed)


def is_one_of(value: float, others: Sequence[float]) -> bool:
    """Whether it may be one more of the others, all of them positive."""
    return bool(abs(math.log(value) - np.log(others).mean()) <= width(others))


def width(others: Sequence[float]) -> float:
    """How far the logarithm of one more of them may be from the mean of theirs."""
    t = stats.t.ppf(1 - ODDS / 2, len(others) - 1)
    return float(t * np.log(others).std(ddof=1) * (1 + 1 / len(others)) ** 0.5)


def near(again: float, before: float, name: str) -> bool:
    """Whether two numbers of this name are the same, but for what hardly needs an explanation."""
    if "accuracy" in name:
        return abs(again - before) <= 0.01
    return math.isclose(again, before, rel_tol=NEAR, abs_tol=1e-6)


def repeats(again: float, before: float, others: Sequence[float], name: str) -> bool:
    """Whether a number came out again: that of before, or both may be those of shaken trainings."""
    return near(again, before, name) or (is_one_of(again, others) and is_one_of(before, others))
