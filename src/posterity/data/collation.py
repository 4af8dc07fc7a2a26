"""Batches as a loader gives them, read as inputs, targets and weights.

    (x, y)                                    x a tensor, or a list, tuple or dict of several inputs
    {"labels": y, "weight": w, ...}           all else is x; the weights may be missing

Real numbers get the network's dtype, labels become int64; tokens and masks stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posterity.core import inputs
from posterity.core.errors import DataError
from posterity.core.inputs import Inputs
from posterity.data.dataset import Batch, Dataset, Task
from posterity.data.validation import count_classes

SAMPLE_ROWS = 2000  # at hand, at most
SAMPLE_VALUES = 2**26  # in these: 256 MiB in single precision
LABELS, WEIGHT = "labels", "weight"  # in a batch that is a dict


class Reader:
    """Makes batches of what a loader gives: by the first it knows the task."""

    def __init__(self, name: str, task: Task | None, num_classes: int | None, dtype: torch.dtype) -> None:
        self.name, self.task, self.num_classes, self.dtype = name, task, num_classes, dtype

    def read(self, raw: Any) -> Batch:
        """Inputs, targets and weights, checked to be of the task."""
        x, y, weight = self._parts(raw)
        if self.task is None:
            self.task = "regression" if y.is_floating_point() else "classification"
        if self.task == "classification":
            y = self._labels(y)
        else:
            y = y.to(self.dtype)
            y = y.unsqueeze(1) if self.task == "regression" and y.dim() == 1 else y
        x = inputs.mapped(lambda part: part.to(self.dtype) if part.is_floating_point() else part, x)
        return Batch(x, y, None if weight is None else weight.to(self.dtype))

    def _parts(self, raw: Any) -> tuple[Inputs, Tensor, Tensor | None]:
        weight = None
        if isinstance(raw, Mapping) and LABELS in raw:
            x: Any = {name: value for name, value in raw.items() if name not in (LABELS, WEIGHT)}
            y, weight = raw[LABELS], raw.get(WEIGHT)
        elif isinstance(raw, Sequence) and len(raw) == 2:
            x, y = raw
            x = tuple(x) if isinstance(x, (list, tuple)) else x
        else:
            found = (
                f"{type(raw).__name__} of {len(raw)}" if isinstance(raw, (Sequence, Mapping)) else type(raw).__name__
            )
            raise DataError(
                f"{self.name}: a batch is a {found}; expected a pair (x, y), where x may be a tuple or a dict of "
                f'inputs, or a dict with "{LABELS}": give the loader a collate_fn that makes one'
            )
        given = [*inputs.parts(x), y, *([] if weight is None else [weight])]
        strange = [type(part).__name__ for part in given if not isinstance(part, Tensor)]
        if strange or not inputs.parts(x) or any(len(part) != len(y) for part in given):
            what = strange[0] if strange else [tuple(part.shape) for part in given]
            raise DataError(f"{self.name}: a batch needs tensors with a row for each target; it has {what}")
        return x, y, weight

    def _labels(self, y: Tensor) -> Tensor:
        if y.is_floating_point():
            raise DataError(f"{self.name}: labels of classes are integers, not {y.dtype}; give task='regression'?")
        labels = y.long()
        least, most = int(labels.min()), int(labels.max())
        if least < 0 or (self.num_classes is not None and most >= self.num_classes):
            known = "0 and more" if self.num_classes is None else f"0..{self.num_classes - 1}"
            raise DataError(f"{self.name}: a batch has labels from {least} to {most}; expected {known}.")
        return labels

    def dataset(self, rows: Batch, num_classes: int) -> Dataset:
        """In memory, as the task has it."""
        assert self.task is not None
        classes = num_classes if self.task == "classification" else 0
        return Dataset(rows.x, rows.y, self.task, classes, self.name, rows.weight)

    def sample(self, rows: Batch, width: Callable[[Inputs], int]) -> Dataset:
        """Rows at hand. There are as many classes as labels that were seen, or outputs of the network."""
        if self.task == "classification" and self.num_classes is None:
            outputs = width(rows.x)
            self.num_classes = outputs if int(rows.y.max()) < outputs else count_classes(rows.y, self.name)
        return self.dataset(rows, self.num_classes or 0)


def most_rows(batch: Batch) -> int:
    """How many rows like those of `batch` are kept at hand."""
    values: int = sum(part[:1].numel() for part in inputs.parts(batch.x))
    return max(2, min(SAMPLE_ROWS, SAMPLE_VALUES // max(1, values)))


def row_shapes(batch: Batch) -> str:
    """The shapes of a row; batches that are padded each for itself have others."""
    return str((inputs.shapes(batch.x), tuple(batch.y.shape[1:])))


def joined(batches: Sequence[Batch]) -> Batch:
    """The rows of all, in order."""
    first = batches[0]
    columns = [torch.cat(each) for each in zip(*(inputs.parts(one.x) for one in batches), strict=True)]
    x: Any = columns[0] if not inputs.several(first.x) else tuple(columns)
    if isinstance(first.x, Mapping):
        x = dict(zip(first.x, columns, strict=True))
    weights = [one.weight for one in batches if one.weight is not None]
    return Batch(x, torch.cat([one.y for one in batches]), torch.cat(weights) if weights else None)
