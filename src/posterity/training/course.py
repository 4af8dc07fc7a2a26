"""Course: the temperature of a training as it goes.

    by rule    a function of the epochs done
    balanced   it follows the training (objectives.balance)
    warming    cold at first, and as warm in the end as data left out would have it (training.warming)

`auto` is warming for regressions whose leverages can be computed, else balanced; what has one temperature by itself
takes it by rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posterity.core.precision import wide
from posterity.likelihoods.gaussian import mean_over_rows
from posterity.objectives import Loss
from posterity.objectives.balance import RAMP, Balance
from posterity.objectives.tempering import TemperatureRule

if TYPE_CHECKING:
    from posterity.data import Batch
    from posterity.training.loop import Training


class Course:
    """By rule: `temperature` is a function of the epochs done. A learnt noise (k,) does not fall below `floor`."""

    def __init__(self, temperature: Callable[[float], float]) -> None:
        self.temperature = temperature
        self.floor: Tensor | None = None

    def words(self, epochs: int) -> str:
        """The temperature of a training of so many epochs that has not begun."""
        return f"{self.temperature(epochs):.3g}"

    def observe(self, training: Training, loss: Loss, answers: Tensor, batch: Batch, share: float) -> None:
        """After each step, whose `answers` were labels or means; averages over steps move by `share`."""

    def state(self) -> dict[str, Any]:
        """All that its future depends on."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""


class BalancedCourse(Course):
    """The temperature is ramped up to what the loss and the KL say."""

    def __init__(self, balance: Balance, rule: TemperatureRule, epochs: int) -> None:
        own = rule.settled is rule  # no warm-up was asked for

        def ramp(done: float) -> float:
            return min(1.0, done / (RAMP * epochs)) if own else rule.ramp(done)

        super().__init__(lambda done: balance.temperature * ramp(done))
        self.balance = balance

    def words(self, epochs: int) -> str:
        """Where it leads to."""
        return f"from 0 up to at most {super().words(epochs)}, by the data"

    def observe(self, training: Training, loss: Loss, answers: Tensor, batch: Batch, share: float) -> None:
        """The step's loss and KL."""
        self.balance.observe(loss_of(training, loss, answers, batch), loss.kl.item(), share)

    def state(self) -> dict[str, Any]:
        """The averages."""
        return self.balance.state()

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.balance.restore(state)


def loss_of(training: Training, loss: Loss, answers: Tensor, batch: Batch) -> float:
    """The nll; of a regression what is left of the targets' variance."""
    if training.train.task != "regression":
        return loss.nll.item()
    left = mean_over_rows(wide(answers - batch.y).square(), batch.weight)
    return float((left / training.target_variance.to(left)).mean())


def variance_of(y: Tensor, weight: Tensor | None) -> Tensor:
    """Of each target (k,), by the rows' weights; 1 where they are all the same."""
    values = wide(y)
    found = mean_over_rows((values - mean_over_rows(values, weight)).square(), weight)
    return torch.where(found > 0, found, 1.0)
