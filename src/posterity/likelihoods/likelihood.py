"""What every observation model offers: log P(y | network output), and a prediction from output samples.

`log_prob` is the one contract: the loss is its mean, and nothing can be put in its place. A class whose `log_prob` is
its own while its `predict` is another's is refused, unless that one asks `log_prob` itself (`predicts_by_log_prob`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.likelihoods.prediction import Prediction

Task = Literal["classification", "binary", "regression"]


class Likelihood(nn.Module, ABC):
    """An observation model P(y | output of the network)."""

    kind: ClassVar[str]
    task: ClassVar[Task | None] = None  # what `fit` makes of targets in arrays; None: what they look like
    of_reals: ClassVar[bool] = False  # whether targets may be standardised: numbers with a noise of any size
    predicts_by_log_prob: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "kind"):
            cls.kind = cls.__name__
        if "nll" in vars(cls):
            raise TypeError(f"{cls.__name__} defines nll, which is the mean of -log_prob for all: define log_prob")
        owner = next((c for c in cls.__mro__ if "predict" in vars(c)), cls)
        own = "log_prob" in vars(cls) and "predict" not in vars(cls)
        if own and owner not in (cls, Likelihood) and not owner.predicts_by_log_prob:  # type: ignore[attr-defined]
            raise TypeError(
                f"{cls.__name__} has a log_prob of its own, but the predict of {owner.__name__}, whose distribution is "
                "another: define predict as well"
            )

    @abstractmethod
    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """log P(y | outputs) (S, n) for `outputs` (S, n, K)."""

    def nll(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Mean over weight samples and data of -`weight` log P(y | outputs), with weights (n,) as they are given."""
        log_prob = self.log_prob(outputs, y)
        return -(log_prob if weight is None else log_prob * weight).mean()

    @abstractmethod
    def predict(self, outputs: Tensor) -> Prediction:
        """The predictive for `outputs` (S, n, K)."""

    def labels(self, outputs: Tensor) -> Tensor:
        """The most probable classes (n, ...) for `outputs` (S, n, K): those of `predict`."""
        found: Tensor = self.predict(outputs).label
        return found

    @abstractmethod
    def num_outputs(self, num_targets: int) -> int:
        """How many outputs a network needs for this many classes or target columns."""

    def output_shape(self, num_targets: int, target_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape (K, ...) of the outputs that it needs for a row: `target_shape` is that of a map of classes."""
        return (self.num_outputs(num_targets), *target_shape)

    def num_classes_of(self, num_outputs: int) -> int:
        """How many classes a network of this many outputs tells apart; 0 where they do not say."""
        return 0

    def check_targets(self, y: Tensor) -> None:
        """Refuse targets (n, ...) that it has no probability for."""

    def _alike(self, outputs: Tensor, y: Tensor) -> Tensor:
        """`y` (n, k) as numbers like the `outputs` (S, n, k), to whose shape it must fit."""
        if outputs.shape[1:] != y.shape:
            raise UsageError(f"{self.kind} targets must have shape {tuple(outputs.shape[1:])}, not {tuple(y.shape)}")
        return y.to(outputs.dtype)

    def trained(self) -> list[nn.Parameter]:
        """The parameters that an optimiser moves in `fit`; what has a closed form follows the residuals instead."""
        return list(self.parameters())

    def adapt(
        self, outputs: Tensor, y: Tensor, share: float, weight: Tensor | None = None, *, least: Tensor | None = None
    ) -> None:
        """Move what has a closed form by `share` of the way to what is best for these `outputs` (S, n, K) and `y`.

        `weight` (n,) is that of each datum, as in `nll`; a noise (k,) stays at `least` so large.
        """

    def begin(self, y: Tensor) -> None:
        """What it takes from the targets (n, ...) of a training before its first step."""

    @property
    def settles(self) -> bool:
        """Whether `settle` does anything."""
        return False

    def settle(
        self, prediction: Prediction, y: Tensor, leverages: Tensor, weight: Tensor | None = None
    ) -> float | None:
        """What it takes from the trained network's `prediction` at its own data, when the training has ended.

        `leverages` (n, k) are how far the network follows each of these data, see training.leverage. Given back is the
        mean log density of the data, each as if it had been left out; None where nothing was done.
        """
        return None

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
