"""Prediction: the predictive distribution at n inputs, what it says and how sure it is.

It comes from S weight samples, or from moments alone; then `samples` is None. `ClassPrediction` and `RealPrediction`
say what their numbers are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import UsageError

Array = np.ndarray[Any, np.dtype[Any]]
Some = TypeVar("Some", bound="Prediction")
DEFAULT_LEVEL = 0.9  # of an interval


class NotOfThisKind(UsageError, AttributeError):
    """A quantity that this kind of prediction does not have, and why; `hasattr` then says False."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(ABC):
    """The predictive distribution at n inputs."""

    kind: ClassVar[str]
    table: ClassVar[str]  # of metrics (posterity.metrics.scores)
    rescalable: ClassVar[bool] = False  # whether it has `rescaled`
    by_sample: ClassVar[tuple[str, ...]] = ("samples",)  # fields (S, n, ...); the others are (n, ...)

    mean: Tensor

    if TYPE_CHECKING:  # fields of the one kind, properties of the other

        @property
        def aleatoric(self) -> Tensor:
            """Uncertainty that is in the data: it stays however much is learnt."""

        @property
        def epistemic(self) -> Tensor:
            """Uncertainty about the weights: more data would remove it."""

        @property
        def samples(self) -> Tensor | None:
            """The mean by weight sample (S, n, ...), or None where only moments are known."""

    @property
    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy of the predictive, in nats."""

    @abstractmethod
    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log of the predictive's probability or density at the true `y`, (n,)."""

    @abstractmethod
    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weights of log P(y | w), (n,): at most `log_prob`."""

    @abstractmethod
    def columns(self) -> dict[str, Tensor]:
        """What a table of it shows, each (n,) or (n, ...)."""

    @abstractmethod
    def _summary(self) -> str:
        """Its averages, in a line."""

    @property
    def total(self) -> Tensor:
        """Aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def num_samples(self) -> int:
        """S, the number of weight samples; 0 for moments alone."""
        return 0 if self.samples is None else len(self.samples)

    @property
    def label(self) -> Tensor:
        """The most probable class (n,)."""
        self._refuse("label", "its targets are numbers, not classes: see mean")

    @property
    def confidence(self) -> Tensor:
        """The largest class probability (n,)."""
        self._refuse("confidence", "its targets are numbers, not classes: see sd and interval")

    @property
    def sd(self) -> Tensor:
        """Standard deviation of the target (n, k)."""
        self._refuse("sd", "a class is not a number: see total, its entropy in nats")

    def quantile(self, q: float | Sequence[float]) -> Tensor:
        """The value below which lies the share `q` of the predictive."""
        self._refuse("quantile", "classes have no order: see mean, their probabilities")

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Tensor, Tensor]:
        """The central interval that holds the share `level` of the predictive: its low and high ends."""
        self._refuse("interval", "classes have no order: see mean, their probabilities")

    def rescaled(self, mean: ArrayLike | Tensor, sd: ArrayLike | Tensor) -> Prediction:
        """The predictive of y = mean + sd z, where this is that of z."""
        self._refuse("other units", "its targets are classes")

    def named(self: Some, classes: Sequence[str]) -> Some:
        """The same with the names of its `classes`, in their order."""
        self._refuse("names of classes", "its targets are numbers")

    def _refuse(self, what: str, reason: str) -> NoReturn:
        raise NotOfThisKind(f"a prediction of {self.kind} has no {what}: {reason}")

    def __len__(self) -> int:
        return self.mean.shape[0]

    def __getitem__(self: Some, rows: int | slice | Sequence[int] | Tensor) -> Some:
        """The prediction at some of the inputs: a slice, indices or a mask; a number gives a prediction of one."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"row {rows} of a prediction of {len(self)}")
            rows = [rows]
        chosen: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                chosen[field.name] = value[:, rows] if field.name in self.by_sample else value[rows]
        return replace(self, **chosen)

    @staticmethod
    def concatenate(parts: Sequence[Some]) -> Some:
        """One prediction of consecutive batches."""
        if len({(type(part), part.samples is None) for part in parts}) != 1:
            kinds = ", ".join(f"{p.kind}{'' if p.samples is None else ' with samples'}" for p in parts) or "none"
            raise UsageError(f"predictions of one kind can be joined, all with samples or all without, not: {kinds}")
        joined: dict[str, Any] = {}
        for field in fields(parts[0]):
            values = [getattr(part, field.name) for part in parts]
            axis = 1 if field.name in parts[0].by_sample else 0
            joined[field.name] = torch.cat(values, dim=axis) if isinstance(values[0], Tensor) else values[0]
        return type(parts[0])(**joined)

    def cpu(self: Some) -> Some:
        """The same in the memory of the CPU."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.cpu() for name, value in values.items() if isinstance(value, Tensor)})

    def to_numpy(self) -> dict[str, Array]:
        """Everything as arrays by name, the samples included: for `np.savez`, plots and data frames."""
        samples = {name: getattr(self, name) for name in self.by_sample}
        known = {name: value for name, value in samples.items() if value is not None}
        return {name: as_array(value) for name, value in (self.columns() | known).items()}

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists and numbers for JSON, without the samples."""
        return {"kind": self.kind, **{name: as_array(value).tolist() for name, value in self.columns().items()}}

    def __repr__(self) -> str:
        count = f"{self.num_samples} weight samples" if self.num_samples else "moments alone"
        head = f"{type(self).__name__}: {self.kind} at {len(self)} inputs, from {count}"
        return f"{head}\n  {self._summary()}" if len(self) else head


def as_array(tensor: Tensor) -> Array:
    """`tensor` for NumPy."""
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16.
    array: Array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array
