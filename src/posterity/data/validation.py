"""What makes data usable: each check says which row or value is at fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from posterity.core.errors import DataError

_CHUNK_VALUES = 1 << 22  # values looked at together, so that checks and statistics need little memory


def chunks(values: Tensor) -> Iterator[Tensor]:
    """Consecutive rows of `values`, a bounded number of values at a time."""
    width = max(1, values[:1].numel())
    step = max(1, _CHUNK_VALUES // width)
    return (values[start : start + step] for start in range(0, len(values), step))


def numeric(values: ArrayLike | Tensor, what: str) -> NDArray[np.generic]:
    """`values` as a numpy array of numbers with at least one dimension."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what} are not a regular array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} are of type {array.dtype}; give numbers (real or integer).")
    if array.ndim == 0:
        raise DataError(f"{what} are the single number {array}; give an array with one row per example.")
    return array


def as_floats(values: ArrayLike | Tensor, what: str) -> Tensor:
    """`values` as a float32 tensor if that holds all that their type can, as float64 otherwise."""
    array = numeric(values, what)
    narrow = np.can_cast(array.dtype, np.float32) or _overflows(array)
    with np.errstate(over="ignore"):  # beyond float32's range is infinite, which check_finite reports
        floats = np.ascontiguousarray(array, dtype=np.float32 if narrow else np.float64)
    return tensor_of(floats)


def tensor_of(array: NDArray[Any]) -> Tensor:
    """The same memory; of a read-only array (a data frame's) a copy, since in-place operations would write there."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_labels(values: ArrayLike | Tensor, what: str) -> Tensor:
    """`values` as an int64 tensor."""
    array = numeric(values, what)
    if array.dtype.kind not in "biu":
        raise DataError(f"{what} are {array.dtype}, not integers; convert them with astype(int).")
    return torch.from_numpy(np.array(array, dtype=np.int64))


def as_inputs(values: ArrayLike | Tensor, what: str, *, whole: bool) -> Tensor:
    """`values` as a tensor of real numbers; with `whole`, truth values stay and whole numbers become int64."""
    array = numeric(values, what)
    if whole and array.dtype.kind in "biu":
        return torch.from_numpy(np.array(array, dtype=bool if array.dtype.kind == "b" else np.int64))
    return as_floats(array, what)


def as_weights(values: ArrayLike | Tensor | None, what: str) -> Tensor | None:
    """`values` as real numbers, if there are any."""
    return None if values is None else as_floats(values, what)


def count_classes(labels: Tensor, what: str) -> int:
    """K of labels 0..K-1; refuses integers that look like quantities."""
    count = int(labels.max()) + 1 if len(labels) else 0
    if count > max(2, len(labels)):
        raise DataError(
            f"{what}: integer targets up to {count - 1} in {len(labels)} rows would mean {count} classes; "
            "number the classes from 0, give num_classes, or, if they are quantities, take task='regression', "
            "in Python Dataset.from_arrays(x, y, task='regression')."
        )
    return max(count, 2)


def check_inputs(x: Tensor, what: str) -> None:
    """Inputs: floating, or int64 tokens, (n, ...) with n > 0, finite."""
    if not (x.is_floating_point() or x.dtype == torch.int64):
        raise DataError(
            f"{what}: inputs are {x.dtype}; expected floating point, convert them with .float(), "
            "or with .long() if they are tokens for an embedding."
        )
    if x.ndim < 2:
        raise DataError(
            f"{what}: inputs have shape {tuple(x.shape)}; expected (rows, features) or (rows, channels, ...)."
        )
    if x.numel() == 0:
        raise DataError(f"{what}: no data, inputs have shape {tuple(x.shape)}; give at least one row.")
    check_finite(x, f"{what}: inputs")


def check_several(parts: list[Tensor], what: str) -> None:
    """Several inputs: tensors with the same number of rows; tokens and masks beside real numbers."""
    if not parts:
        raise DataError(f"{what}: the tuple or dict of inputs is empty; give at least one.")
    for part in parts:
        if not isinstance(part, Tensor):
            raise DataError(f"{what}: one of the inputs is a {type(part).__name__}; give tensors, or use from_arrays.")
        if part.ndim < 1 or len(part) != len(parts[0]) or len(part) == 0:
            raise DataError(
                f"{what}: inputs have the shapes {', '.join(str(tuple(p.shape)) for p in parts)}; all need the same "
                "rows, at least one."
            )
        if part.is_floating_point():
            check_finite(part, f"{what}: inputs")


def check_weights(weight: Tensor, rows: int, what: str) -> None:
    """Weights of rows: one for each, finite, none negative, not all 0."""
    if not weight.is_floating_point() or weight.shape != (rows,):
        raise DataError(f"{what}: weights are {weight.dtype} of shape {tuple(weight.shape)}; expected real, ({rows},).")
    check_finite(weight, f"{what}: weights")
    if bool((weight < 0).any()) or not bool(weight.any()):
        raise DataError(
            f"{what}: weights are from {weight.min():g} to {weight.max():g}; none may be below 0, nor all 0."
        )


def check_targets(y: Tensor, task: str, num_classes: int, what: str) -> None:
    """Targets: type, shape and range that `task` asks for."""
    if task == "classification":
        _check_labels(y, num_classes, what)
    elif task == "binary":
        _check_binary(y, what)
    else:
        if not y.is_floating_point() or y.ndim != 2 or y.shape[1] == 0:
            raise DataError(
                f"{what}: regression targets are {y.dtype} of shape {tuple(y.shape)}; "
                "expected floating point of shape (rows, columns)."
            )
        check_finite(y, f"{what}: targets")


def refuse_classes_as_numbers(y: Tensor, what: str) -> None:
    """Refuse floating targets that are but 0 and 1, which look like classes, where nobody said what they are."""
    if not (((y == 0) | (y == 1)).all() and (y == 0).any() and (y == 1).any()):
        return
    columns = 1 if y.ndim == 1 else y.shape[1]
    if columns == 1:
        advice = "give integers or task='binary' for classes"
    elif (y.sum(1) == 1).all():
        advice = f"for {columns} classes, one-hot, give y.argmax(1)"
    else:
        advice = "for several labels a row give likelihood=MultiLabel()"
    raise DataError(
        f"{what}: the targets are floating point, and all of them 0 or 1: {advice}, task='regression' if they are "
        "quantities."
    )


def check_finite(values: Tensor, what: str) -> None:
    """No NaN and no infinity; otherwise says in how many rows, and in which first."""
    bad, first, seen = 0, -1, 0
    for chunk in chunks(values):
        seen += len(chunk)
        if chunk.sum().isfinite():  # several times quicker than looking at each value
            continue
        faulty = ~chunk.isfinite().flatten(1).all(dim=1) if chunk.ndim > 1 else ~chunk.isfinite()
        if faulty.any():
            first = seen - len(chunk) + int(faulty.nonzero()[0]) if first < 0 else first
            bad += int(faulty.sum())
    if bad:
        raise DataError(
            f"{what} are NaN or infinite (as {values.dtype}) in {bad} of {len(values)} rows, "
            f"first in row {first}; remove these rows or fill the gaps."
        )


def _overflows(array: NDArray[np.generic]) -> bool:
    """Whether a value is beyond float32's range, which no network can take."""
    limit = np.finfo(np.float32).max
    return bool(array.size and (array.min() < -limit or array.max() > limit))


def _check_labels(y: Tensor, num_classes: int, what: str) -> None:
    if y.dtype != torch.int64 or y.ndim < 1:
        raise DataError(
            f"{what}: labels are {y.dtype} of shape {tuple(y.shape)}; expected torch.int64 of shape (rows,), or "
            "(rows, ...) for maps of classes."
        )
    if num_classes < 2:
        raise DataError(f"{what}: num_classes is {num_classes}; classification needs at least 2.")
    outside = ((y < 0) | (y >= num_classes)).nonzero()
    if len(outside):
        place = outside[0].tolist()
        row = place[0]
        raise DataError(
            f"{what}: label {int(y[tuple(place)])} in row {row} is outside 0..{num_classes - 1}; "
            "number the classes from 0, or give a larger num_classes."
        )


def _check_binary(y: Tensor, what: str) -> None:
    if not y.is_floating_point() or y.ndim not in (1, 2):
        raise DataError(
            f"{what}: binary targets are {y.dtype} of shape {tuple(y.shape)}; expected floating point of shape "
            "(rows,), or (rows, labels) where several may hold."
        )
    outside = ((y != 0) & (y != 1)).nonzero()
    if len(outside):
        place = outside[0].tolist()
        raise DataError(f"{what}: binary target {float(y[tuple(place)])} in row {place[0]} is neither 0 nor 1.")
