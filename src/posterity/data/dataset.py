"""Data in memory: inputs, targets, and the task they pose."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import DataError
from posterity.data.columns import Columns
from posterity.data.validation import (
    as_floats,
    as_labels,
    check_inputs,
    check_targets,
    check_weight,
    count_classes,
    numeric,
)

Task = Literal["classification", "binary", "regression"]


@dataclass(frozen=True)
class Dataset:
    """Inputs and targets in memory, with what a network needs to know of them.

    `x` is (n, ...) floating, or int64 tokens for an embedding; `y` is (n,) int64 for classification,
    (n,) floating 0/1 for binary and (n, k) floating for regression. Raw data may be float64, a network
    takes float32: `Standardisation` or `to` make the one of the other. `weight` (n,) says how often a row counts: 2 is
    the datum twice. `classes` are the names of the classes, `columns` what a table's columns were, where they are known.
    """

    x: Tensor
    y: Tensor
    task: Task
    num_classes: int = 0
    name: str = "data"
    weight: Tensor | None = None
    classes: tuple[str, ...] = ()
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if self.task not in get_args(Task):
            raise DataError(f"{self.name}: task '{self.task}' is not one of {', '.join(get_args(Task))}.")
        check_inputs(self.x, self.name)
        if len(self.x) != len(self.y):
            raise DataError(
                f"{self.name}: {len(self.x)} rows of inputs but {len(self.y)} of targets; give one target for each row."
            )
        check_targets(self.y, self.task, self.num_classes, self.name)
        if self.weight is not None:
            check_weight(self.weight, len(self.x), self.name)

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
        x, y = self.x[index], self.y[index]
        if not len(x):
            raise DataError(f"{self.name}: no rows are left of {len(self)}; give the index of one at least.")
        part = copy.copy(self)  # rows of what was checked need not be checked again
        object.__setattr__(part, "x", x)
        object.__setattr__(part, "y", y)
        object.__setattr__(part, "weight", None if self.weight is None else self.weight[index])
        return part

    def sample(self, count: int, generator: torch.Generator) -> Dataset:
        """`count` of the rows at random, each at most once, in the order they have here."""
        if not 0 < count <= len(self):
            raise DataError(f"cannot sample {count} of the {len(self)} rows of {self.name}; give 1 to {len(self)}.")
        return self.subset(torch.randperm(len(self), generator=generator)[:count].sort().values)

    def to(self, dtype: torch.dtype) -> Dataset:
        """The same with floating inputs and targets as `dtype`; tokens and labels stay int64."""
        x, y = (values.to(dtype) if values.is_floating_point() else values for values in (self.x, self.y))
        return replace(self, x=x, y=y, weight=None if self.weight is None else self.weight.to(dtype))

    def split(self, fraction: float, generator: torch.Generator) -> tuple[Dataset, Dataset]:
        """(rest, held out), the held-out part being a random `fraction` of the rows."""
        rest, held_out = split_rows(len(self), fraction, generator, self.name)
        return self.subset(rest), self.subset(held_out)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        task: Task | None = None,
        num_classes: int | None = None,
        name: str = "data",
        weight: ArrayLike | Tensor | None = None,
    ) -> Dataset:
        """From numpy arrays, tensors or lists; integer targets mean classification.

        What float32 cannot hold (float64, integers of 32 bits and more, lists) becomes float64, the rest
        float32. Inputs (n,) become one feature (n, 1). Values are not rescaled: uint8 images stay on 0..255.
        """
        inputs, raw = as_floats(x, f"{name}: inputs"), numeric(y, f"{name}: targets")
        inputs = inputs.unsqueeze(1) if inputs.ndim == 1 else inputs
        counts = None if weight is None else as_floats(weight, f"{name}: weights").to(inputs.dtype)
        inferred: Task = "classification" if raw.dtype.kind in "biu" else "regression"
        if (task or inferred) == "classification":
            labels = as_labels(raw, f"{name}: labels")
            classes = count_classes(labels, name) if num_classes is None else num_classes
            return cls(inputs, labels, "classification", classes, name, counts)
        targets = as_floats(raw, f"{name}: targets")
        if task == "binary":
            return cls(inputs, targets.float(), "binary", 0, name, counts)
        return cls(inputs, targets.unsqueeze(1) if targets.ndim == 1 else targets, task or inferred, 0, name, counts)


def split_rows(count: int, fraction: float, generator: torch.Generator, name: str) -> tuple[Tensor, Tensor]:
    """(rest, held out): the rows of each part in order, the held-out part being a random `fraction` of them."""
    held = round(count * fraction) if 0.0 < fraction < 1.0 else 0
    if not 0 < held < count:
        raise DataError(
            f"holding out the fraction {fraction} of the {count} rows of {name} leaves a part "
            "empty; give a fraction between 0 and 1 that leaves each part a row, or more data."
        )
    order = torch.randperm(count, generator=generator)
    return order[held:].sort().values, order[:held].sort().values
