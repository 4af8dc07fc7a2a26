"""Data in memory: inputs, targets, the task they pose, and their standardisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import CorruptFileError, DataError
from posterity.data.validation import (
    as_floats,
    as_labels,
    check_inputs,
    check_targets,
    chunks,
    count_classes,
    numeric,
)

Task = Literal["classification", "binary", "regression"]


@dataclass(frozen=True)
class Dataset:
    """Inputs and targets in memory, with what a network needs to know of them.

    `x` is (n, ...) floating, or int64 tokens for an embedding; `y` is (n,) int64 for classification,
    (n,) floating 0/1 for binary and (n, k) floating for regression.
    """

    x: Tensor
    y: Tensor
    task: Task
    num_classes: int = 0
    name: str = "data"

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise DataError(f"{self.name}: task '{self.task}' is not one of {', '.join(get_args(Task))}.")
        check_inputs(self.x, self.name)
        if len(self.x) != len(self.y):
            raise DataError(
                f"{self.name}: {len(self.x)} rows of inputs but {len(self.y)} of targets; give one target for each row."
            )
        check_targets(self.y, self.task, self.num_classes, self.name)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def num_outputs(self) -> int:
        """Outputs a network needs: classes, one logit, or target columns."""
        if self.task == "classification":
            return self.num_classes
        return 1 if self.task == "binary" else self.y.shape[1]

    def subset(self, index: Tensor) -> Dataset:
        """The rows of `index`: positions, or a mask of length n."""
        return replace(self, x=self.x[index], y=self.y[index])

    def split(self, fraction: float, generator: torch.Generator) -> tuple[Dataset, Dataset]:
        """(rest, held out), the held-out part being a random `fraction` of the rows."""
        held = round(len(self) * fraction) if 0.0 < fraction < 1.0 else 0
        if not 0 < held < len(self):
            raise DataError(
                f"holding out the fraction {fraction} of the {len(self)} rows of {self.name} leaves a part "
                "empty; give a fraction between 0 and 1 that leaves each part a row, or more data."
            )
        order = torch.randperm(len(self), generator=generator)
        return self.subset(order[held:].sort().values), self.subset(order[:held].sort().values)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        task: Task | None = None,
        num_classes: int | None = None,
        name: str = "data",
    ) -> Dataset:
        """From numpy arrays, tensors or lists, as float32; integer targets mean classification.

        Inputs (n,) become one feature (n, 1). Values are not rescaled: uint8 images stay on 0..255.
        """
        inputs, raw = as_floats(x, f"{name}: inputs"), numeric(y, f"{name}: targets")
        inputs = inputs.unsqueeze(1) if inputs.ndim == 1 else inputs
        inferred: Task = "classification" if raw.dtype.kind in "biu" else "regression"
        if (task or inferred) == "classification":
            labels = as_labels(raw, f"{name}: labels")
            classes = count_classes(labels, name) if num_classes is None else num_classes
            return cls(inputs, labels, "classification", classes, name)
        targets = as_floats(raw, f"{name}: targets")
        if task != "binary" and targets.ndim == 1:
            targets = targets.unsqueeze(1)
        return cls(inputs, targets, task or inferred, 0, name)


@dataclass(frozen=True)
class Standardisation:
    """Mean and sd of inputs by feature (n, d) or channel (n, c, ...), and of regression targets.

    `x_mean` and `x_sd` are (d,) or (c, 1, ...); `y_mean` and `y_sd` are (k,) for regression and
    [0.], [1.] otherwise. They come from training data only.
    """

    x_mean: Tensor
    x_sd: Tensor
    y_mean: Tensor
    y_sd: Tensor

    @classmethod
    def of(cls, dataset: Dataset) -> Standardisation:
        """Statistics of `dataset`; a constant feature gets sd 1, so that it becomes 0."""
        if dataset.task == "regression":
            return cls(*_moments(dataset.x), *_moments(dataset.y))
        return cls(*_moments(dataset.x), *_unit_moments(dataset.x, (1,)))

    @classmethod
    def identity(cls, dataset: Dataset) -> Standardisation:
        """Mean 0 and sd 1, in the shapes that fit `dataset`."""
        shape = (dataset.x.shape[1],) + (1,) * (dataset.x.ndim - 2)
        width = dataset.y.shape[1] if dataset.task == "regression" else 1
        return cls(*_unit_moments(dataset.x, shape), *_unit_moments(dataset.x, (width,)))

    def inputs(self, x: Tensor) -> Tensor:
        """Standardised inputs, (n, ...)."""
        mean = self.x_mean
        if x.ndim != mean.ndim + 1 or x.shape[1] != mean.shape[0]:
            raise DataError(
                f"inputs of shape {tuple(x.shape)} do not fit the training data: expected {mean.ndim + 1} "
                f"dimensions, rows first, and {mean.shape[0]} features or channels second."
            )
        return (x - mean).div_(self.x_sd)

    def targets(self, y: Tensor) -> Tensor:
        """Standardised regression targets (n, k); labels (n,) come back as they are."""
        if y.ndim < 2:
            return y
        if y.shape[1] != len(self.y_mean):
            raise DataError(f"targets have {y.shape[1]} columns but those of the training data {len(self.y_mean)}.")
        return (y - self.y_mean).div_(self.y_sd)

    def apply(self, dataset: Dataset) -> Dataset:
        """`dataset` with standardised inputs and, for regression, targets."""
        return replace(dataset, x=self.inputs(dataset.x), y=self.targets(dataset.y))

    def state(self) -> dict[str, Tensor]:
        """The four tensors by name."""
        return {"x_mean": self.x_mean, "x_sd": self.x_sd, "y_mean": self.y_mean, "y_sd": self.y_sd}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Standardisation:
        """Inverse of `state`."""
        missing = [key for key in ("x_mean", "x_sd", "y_mean", "y_sd") if key not in state]
        if missing:
            raise CorruptFileError(f"standardisation lacks {', '.join(missing)}; it has {sorted(state)}.")
        return cls(state["x_mean"], state["x_sd"], state["y_mean"], state["y_sd"])


@dataclass(frozen=True)
class Splits:
    """Training and test data, raw."""

    train: Dataset
    test: Dataset

    def standardised(self) -> tuple[Splits, Standardisation]:
        """Both parts standardised with the statistics of the training part."""
        scale = Standardisation.of(self.train)
        return Splits(scale.apply(self.train), scale.apply(self.test)), scale


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sd over all dimensions but the second, in float64 by two passes over chunks."""
    over = [0, *range(2, values.ndim)]
    count = values.numel() // values.shape[1]
    # Differences from the first value: a constant feature then has a variance of exactly 0.
    mean = values[:1].flatten(2)[..., 0].double() if values.ndim > 2 else values[:1].double()
    mean = mean.reshape(1, -1, *(1 for _ in over[1:]))
    shift, variance = torch.zeros_like(mean), torch.zeros_like(mean)
    for chunk in chunks(values):
        shift += (chunk.double() - mean).sum(over, keepdim=True)
    mean += shift / count
    for chunk in chunks(values):
        variance += (chunk.double() - mean).square_().sum(over, keepdim=True)
    mean, variance = mean[0], variance[0] / count
    sd = variance.sqrt().to(values.dtype)
    return mean.to(values.dtype), torch.where(sd > 0, sd, torch.ones_like(sd))


def _unit_moments(like: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return like.new_zeros(shape), like.new_ones(shape)
