"""What every observation model offers: log P(y | network output), and a prediction from output samples."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.likelihoods.prediction import Prediction


class Likelihood(nn.Module, ABC):
    """An observation model P(y | output of the network)."""

    kind: ClassVar[str]

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """log P(y | outputs) (S, n) for `outputs` (S, n, K)."""

    def nll(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Mean over weight samples and data of -log P(y | outputs), times `weight` (n,)."""
        log_prob = self.log_prob(outputs, y)
        return -(log_prob if weight is None else weight * log_prob).mean()

    @abstractmethod
    def predict(self, outputs: Tensor) -> Prediction:
        """The predictive for `outputs` (S, n, K)."""

    @abstractmethod
    def num_outputs(self, num_targets: int) -> int:
        """How many outputs a network needs for this many classes or target columns."""

    def trained(self) -> list[nn.Parameter]:
        """The parameters that an optimiser moves in `fit`; what has a closed form follows the residuals instead."""
        return list(self.parameters())

    def adapt(self, outputs: Tensor, y: Tensor, share: float) -> None:
        """Move what has a closed form by `share` of the way to what is best for these `outputs` (S, n, K) and `y`."""

    def begin(self, y: Tensor) -> None:
        """What it takes from the targets (n, ...) of a training before its first step."""

    @property
    def settles(self) -> bool:
        """Whether `settle` does anything."""
        return False

    def settle(self, prediction: Prediction, y: Tensor, leverage: Tensor) -> None:
        """What it takes from the trained network's `prediction` at its own data, when the training has ended.

        `leverage` (k,) is how far the network follows these data, see training.leverage.
        """

    def learnt(self) -> dict[str, Any]:
        """What an epoch's record says of it."""
        return {}

    def pooled(self, others: Sequence[Likelihood]) -> Likelihood:
        """The one likelihood of a mixture of networks that have this one and `others`, of the same kind and options."""
        pairs = [pair for one in others for pair in zip(self.parameters(), one.parameters(), strict=True)]
        if not all(torch.equal(ours, theirs) for ours, theirs in pairs):
            raise UsageError(f"networks whose {self.kind} likelihoods have learnt other values cannot share one")
        return copy.deepcopy(self)

    def options(self) -> dict[str, Any]:
        """What to build it again from."""
        return {}
