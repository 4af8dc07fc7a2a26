"""Data in memory: inputs, targets, weights, and the task they pose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core import inputs
from posterity.core.errors import DataError
from posterity.core.inputs import Inputs
from posterity.data.columns import Columns
from posterity.data.validation import (
    as_floats,
    as_inputs,
    as_labels,
    as_weights,
    check_inputs,
    check_several,
    check_targets,
    check_weights,
    count_classes,
    numeric,
    refuse_classes_as_numbers,
)

Task = Literal["classification", "binary", "regression"]


class Batch(NamedTuple):
    """Rows of a training: inputs, targets and, if they are weighted, weights."""

    x: Inputs
    y: Tensor
    weight: Tensor | None = None

    def changed(self, change: Callable[[Inputs], Inputs]) -> Batch:
        """The same with inputs, targets and weights changed."""
        return Batch(change(self.x), change(self.y), None if self.weight is None else change(self.weight))

    @property
    def targets(self) -> tuple[Tensor, ...]:
        """What a likelihood is given beside the outputs: y, and the weights if there are any."""
        return (self.y,) if self.weight is None else (self.y, self.weight)


@dataclass(frozen=True)
class Dataset:
    """Inputs and targets in memory, with what a network needs to know of them.

    `x` is (n, ...) floating, or int64 tokens for an embedding, or a tuple or dict of several such tensors, the
    arguments of the network; `y` is (n,) int64 for classification ((n, ...) for maps of classes), (n,) floating 0/1 for
    binary and (n, k) floating for regression. Raw data may be float64, a network takes float32: `Standardisation` or
    `to` make the one of the other. `weight` (n,) multiplies each row's log-likelihood: 2 is the datum twice.
    `classes` are the classes' names, `columns` what a table's columns were, where they are known.
    """

    x: Inputs
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
        if inputs.several(self.x):
            check_several(inputs.parts(self.x), self.name)
        else:
            check_inputs(self.x, self.name)
        if len(self) != len(self.y):
            raise DataError(
                f"{self.name}: {len(self)} rows of inputs but {len(self.y)} of targets; give one target for each row."
            )
        check_targets(self.y, self.task, self.num_classes, self.name)
        if self.weight is not None:
            check_weights(self.weight, len(self), self.name)

    def __len__(self) -> int:
        return inputs.count(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input; refused where there are several."""
        if inputs.several(self.x):
            raise DataError(f"{self.name}: there are several inputs, of shapes {inputs.shapes(self.x)}; expected one.")
        return tuple(self.x.shape[1:])

    @property
    def num_outputs(self) -> int:
        """Outputs a network needs: classes, one logit, or target columns."""
        if self.task == "classification":
            return self.num_classes
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    def subset(self, index: Tensor) -> Dataset:
        """The rows of `index`: positions, or a mask of length n."""
        part = copy.copy(self)  # rows of what was checked need not be checked again
        for name, values in zip(("x", "y", "weight"), self.rows(index), strict=True):
            object.__setattr__(part, name, values)
        if not len(part):
            raise DataError(f"{self.name}: no rows are left of {len(self)}; give the index of one at least.")
        return part

    def rows(self, index: Tensor) -> Batch:
        """Inputs, targets and weights of these rows."""
        weight = None if self.weight is None else inputs.take(self.weight, index)
        return Batch(inputs.take(self.x, index), inputs.take(self.y, index), weight)

    def sample(self, count: int, generator: torch.Generator) -> Dataset:
        """`count` of the rows at random, each at most once, in the order they have here."""
        if not 0 < count <= len(self):
            raise DataError(f"cannot sample {count} of the {len(self)} rows of {self.name}; give 1 to {len(self)}.")
        return self.subset(torch.randperm(len(self), generator=generator)[:count].sort().values)

    def to(self, dtype: torch.dtype) -> Dataset:
        """The same with floating inputs and targets as `dtype`; tokens and labels stay int64."""

        def cast(values: Tensor) -> Tensor:
            return values.to(dtype) if values.is_floating_point() else values

        weight = None if self.weight is None else cast(self.weight)
        return replace(self, x=inputs.mapped(cast, self.x), y=cast(self.y), weight=weight)

    def split(self, fraction: float, generator: torch.Generator) -> tuple[Dataset, Dataset]:
        """(rest, held out), the held-out part being a random `fraction` of the rows."""
        rest, held_out = split_rows(len(self), fraction, generator, self.name)
        return self.subset(rest), self.subset(held_out)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike | Inputs,
        y: ArrayLike | Tensor,
        task: Task | None = None,
        num_classes: int | None = None,
        name: str = "data",
        *,
        weight: ArrayLike | Tensor | None = None,
        tokens: bool = False,
    ) -> Dataset:
        """From numpy arrays, tensors or lists; integer targets mean classification.

        What float32 cannot hold (float64, integers of 32 bits and more, lists) becomes float64, the rest
        float32. Inputs (n,) become one feature (n, 1). Values are not rescaled: uint8 images stay on 0..255.
        With `tokens` integer inputs stay integers. A tuple or a dict of inputs are several, each as it is: in it
        integers and truth values always stay, and (n,) stays (n,).
        """
        among = inputs.several(x)
        given = inputs.mapped(lambda part: as_inputs(part, f"{name}: inputs", whole=among or tokens), x)
        given = given.unsqueeze(1) if not among and given.ndim == 1 else given
        raw, beside = numeric(y, f"{name}: targets"), as_weights(weight, f"{name}: weights")
        inferred: Task = "classification" if raw.dtype.kind in "biu" else "regression"
        if (task or inferred) == "classification":
            labels = as_labels(raw, f"{name}: labels")
            classes = count_classes(labels, name) if num_classes is None else num_classes
            return cls(given, labels, "classification", classes, name, beside)
        targets = as_floats(raw, f"{name}: targets")
        if task is None:
            refuse_classes_as_numbers(targets, name)
        if task == "binary":
            return cls(given, targets.float(), "binary", 0, name, beside)
        columns = targets.unsqueeze(1) if targets.ndim == 1 else targets
        return cls(given, columns, task or inferred, 0, name, beside)


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
