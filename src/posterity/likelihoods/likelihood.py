"""What every observation model offers: log P(y | network output), and a prediction from output samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution at n inputs, from S weight samples.

    Classification: `mean` (n, K) probabilities, `samples` (S, n, K) probabilities by weight sample,
    `aleatoric` and `epistemic` (n,) in nats, `confidence` (n,).
    Regression: `mean` (n, k), `samples` (S, n, k) means, `aleatoric` and `epistemic` (n, k) variances,
    `noise` (S, n, k) the noise variance by weight sample; no confidence.
    """

    mean: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    samples: Tensor
    confidence: Tensor | None = None
    noise: Tensor | None = None

    def __len__(self) -> int:
        return self.mean.shape[0]

    @property
    def total(self) -> Tensor:
        """Aleatoric + epistemic: the predictive's entropy, or its variance."""
        return self.aleatoric + self.epistemic

    @property
    def label(self) -> Tensor:
        """The most probable class (n,)."""
        return self.mean.argmax(-1)

    @classmethod
    def concatenate(cls, parts: list[Prediction]) -> Prediction:
        """One prediction of consecutive batches."""
        joined: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            axis = 1 if field.name in ("samples", "noise") else 0
            joined[field.name] = None if values[0] is None else torch.cat(values, dim=axis)
        return cls(**joined)


class Likelihood(nn.Module, ABC):
    """An observation model P(y | output of the network)."""

    kind: ClassVar[str]

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """log P(y | outputs) (S, n) for `outputs` (S, n, K)."""

    def nll(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Mean over weight samples and data of -log P(y | outputs)."""
        return -self.log_prob(outputs, y).mean()

    @abstractmethod
    def predict(self, outputs: Tensor) -> Prediction:
        """The predictive for `outputs` (S, n, K)."""

    @abstractmethod
    def num_outputs(self, num_targets: int) -> int:
        """How many outputs a network needs for this many classes or target columns."""

    def options(self) -> dict[str, Any]:
        """What to build it again from."""
        return {}
