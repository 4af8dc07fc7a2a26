"""Users' own data: `.npz` with arrays x and y (and x_test, y_test), `.csv` or `.csv.gz` with a header.

A file is told from a data set's name by its suffix, in upper or lower case. A symbolic link counts by its own
suffix, not by that of what it leads to.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posterity.core.errors import DataError, UsageError
from posterity.data.archives import read_npz
from posterity.data.columns import MAX_ONE_HOT, Columns, listed
from posterity.data.dataset import Dataset, Task, split_rows
from posterity.data.frames import Column, Table, table_of
from posterity.data.splits import Splits
from posterity.data.tables import PACKED, read_table
from posterity.data.validation import as_floats, as_labels, check_inputs, count_classes, numeric

_NPZ, _CSV = ".npz", ".csv"
_TEST_FRACTION = 0.2
_MAX_NAMED_SHARE = 0.5  # of the rows: more different texts than this are no classes
_MAX_GUESSED_CLASSES = 20  # more distinct whole numbers than this are quantities


def is_file_name(name: str) -> bool:
    """Whether `name` is a file's path rather than a data set's name."""
    return _suffix(Path(name)) in (_NPZ, _CSV)


def resolve_dataset(name: str) -> str:
    """A data set's name as it is, a file's path so that it holds in every working directory.

    Links among its folders are followed, as `..` means the real parent. The file itself keeps its name, as what
    it links to (a store of blobs) may have no suffix to tell its format by.
    """
    if not is_file_name(name):
        return name
    path = Path(name)
    return str(Path(os.path.realpath(path.parent)) / path.name)


def read_splits(
    path: Path,
    *,
    seed: int = 0,
    target: str | None = None,
    task: Task | None = None,
    max_one_hot: int = MAX_ONE_HOT,
    embedded: Collection[str] = (),
) -> Splits:
    """Training and test data of a file: its own test arrays, or a random fifth by `seed`.

    What a table's columns are is learnt from the training rows alone; `max_one_hot` and `embedded` as in `Columns.of`.
    """
    if _kind(path) == _CSV:
        table, y = _split_table(path, target)
        targets = _targets(y, task, path)
        rest, held_out = split_rows(len(y), _TEST_FRACTION, torch.Generator().manual_seed(seed), targets.name)
        columns = Columns.of(_rows(table, rest), max_one_hot=max_one_hot, embedded=embedded)
        train, test = (
            replace(targets.subset(rows), x=torch.from_numpy(columns.encode(_rows(table, rows))), columns=columns)
            for rows in (rest, held_out)
        )
        return Splits(train, test)
    arrays = read_npz(path)
    if target is not None or not {"x_test", "y_test"} & arrays.keys():
        return _split(read_dataset(path, target=target, task=task), seed)
    _require(arrays, ("x", "y"), path)
    _require(arrays, ("x_test", "y_test"), path)
    return _own_splits(arrays, task, path.stem)


def read_dataset(
    path: Path,
    *,
    target: str | None = None,
    task: Task | None = None,
    columns: Columns | None = None,
    classes: Sequence[str] = (),
) -> Dataset:
    """All rows of a file as one data set; of a table as a run's `columns` and `classes` have it, if they are given."""
    if _kind(path) == _CSV:
        table, y = _split_table(path, target)
        targets = _targets(y, task, path, classes)
        return replace(targets, x=torch.from_numpy(encoded(table, columns, str(path))), columns=columns)
    if target is not None:
        raise UsageError(f"target '{target}' names a column, but {path} is no .csv; its targets are array y.")
    arrays = read_npz(path)
    _require(arrays, ("x", "y"), path)
    return Dataset.from_arrays(arrays["x"], arrays["y"], task, name=path.stem)


def read_inputs(path: Path, *, target: str | None = None, columns: Columns | None = None) -> Tensor:
    """Inputs to predict from: array x of an `.npz`, or its only one; a `.csv` without column `target`.

    With `columns`, those of the training data, a `.csv` gives just these, found by their names.
    """
    values: NDArray[np.generic]
    if _kind(path) == _CSV:
        table = {name: column for name, column in read_table(path).items() if columns is not None or name != target}
        if not table:
            raise DataError(f"{path} has no column but the target '{target}'.")
        values = encoded(table, columns, str(path))
    else:
        arrays = read_npz(path)
        if "x" not in arrays and len(arrays) != 1:
            raise DataError(f"{path} has the arrays {', '.join(arrays) or 'none'}; name the inputs x.")
        values = arrays["x"] if "x" in arrays else next(iter(arrays.values()))
    x = as_floats(values, f"{path}: inputs")
    x = x.unsqueeze(1) if x.ndim == 1 else x
    check_inputs(x, str(path))
    return x


def encoded(x: Any, columns: Columns | None, what: str) -> NDArray[np.float64]:
    """A frame or a table as rows of numbers; without `columns` it must have numbers alone, and no gaps."""
    table = table_of(x)
    try:
        return (Columns.plain(table) if columns is None else columns).encode(table)
    except DataError as error:
        raise DataError(f"{what}: {error}") from error


def _suffix(path: Path) -> str:
    """What a file's name says that it is, packed or not."""
    return Path(path.stem if path.suffix.lower() == PACKED else path.name).suffix.lower()


def _kind(path: Path) -> str:
    kind = _suffix(path)
    if kind not in (_NPZ, _CSV):
        raise UsageError(f"{path} is neither a .npz nor a .csv file (.csv.gz is one, too).")
    if not path.is_file():
        raise UsageError(f"there is no file {path}; check the path.")
    return kind


def _rows(table: Table, rows: Tensor) -> Table:
    return {name: column[rows.numpy()] for name, column in table.items()}


def _split(dataset: Dataset, seed: int) -> Splits:
    rest, held_out = dataset.split(_TEST_FRACTION, torch.Generator().manual_seed(seed))
    return Splits(rest, held_out)


def _own_splits(arrays: dict[str, NDArray[np.generic]], task: Task | None, name: str) -> Splits:
    num_classes = None
    if task == "classification" or (task is None and numeric(arrays["y"], f"{name}: y").dtype.kind in "biu"):
        # A class may occur in one of the parts only.
        both = np.concatenate([np.ravel(arrays["y"]), np.ravel(arrays["y_test"])])
        task, num_classes = "classification", count_classes(as_labels(both, f"{name}: labels"), name)
    else:
        task = task or "regression"
    splits = Splits(
        Dataset.from_arrays(arrays["x"], arrays["y"], task, num_classes, name),
        Dataset.from_arrays(arrays["x_test"], arrays["y_test"], task, num_classes, f"{name} (test)"),
    )
    if splits.train.input_shape != splits.test.input_shape or splits.train.num_outputs != splits.test.num_outputs:
        raise DataError(
            f"{name}: x and x_test have rows of shape {splits.train.input_shape} and "
            f"{splits.test.input_shape}, y and y_test {splits.train.num_outputs} and "
            f"{splits.test.num_outputs} outputs; they must agree."
        )
    return splits


def _require(arrays: dict[str, NDArray[np.generic]], names: tuple[str, ...], path: Path) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(
            f"{path} lacks the array {' and '.join(missing)}; it has {', '.join(arrays) or 'none'}. "
            "Expected x and y, and both or none of x_test and y_test."
        )


def _split_table(path: Path, target: str | None) -> tuple[Table, Column]:
    """Input columns, and the column `target`, or the last."""
    table = read_table(path)
    names = list(table)
    if target is not None and target not in table:
        raise UsageError(f"{path} has no column '{target}'; its columns are {listed(names)}.")
    if len(names) < 2:
        raise DataError(f"{path} has the single column '{names[0]}'; expected inputs and a target.")
    y = table.pop(names[-1] if target is None else target)
    return table, y


def _targets(y: Column, task: Task | None, path: Path, known: Sequence[str] = ()) -> Dataset:
    """The targets, with row numbers for inputs: text is the names of classes, the `known` or in alphabetical order."""
    gaps = np.flatnonzero([value is None for value in y] if y.dtype == object else np.isnan(y))
    if len(gaps):
        raise DataError(
            f"{path}: the target is missing in {len(gaps)} of {len(y)} rows, first in row {gaps[0]}; remove these rows."
        )
    stem = Path(path.stem).stem if path.suffix.lower() == PACKED else path.stem
    rows = np.arange(len(y), dtype=np.float64)
    if y.dtype != object:
        task = task or _csv_task(y, str(path))
        labels = y.astype(np.int64) if task == "classification" and (y == np.round(y)).all() else y
        return Dataset.from_arrays(rows, labels, task, name=stem)
    if task == "regression":
        raise DataError(f"{path}: the targets are text, such as '{y[0]}'; a regression needs numbers.")
    if known:
        return _named(y, known, task or "classification", path, stem)
    classes, numbers = np.unique(y.astype(str), return_inverse=True)
    if len(classes) < 2 or (task == "binary" and len(classes) != 2):
        raise DataError(f"{path}: the targets have {len(classes)} classes ({listed(list(classes))}); expected two.")
    if len(classes) > _MAX_NAMED_SHARE * len(y):
        raise DataError(
            f"{path}: {len(classes)} of {len(y)} targets are different texts, such as '{classes[0]}', which are no "
            "classes; name the target's column with target=..., or --target."
        )
    found = Dataset.from_arrays(rows, numbers, task or "classification", name=stem)
    return replace(found, classes=tuple(map(str, classes)))


def _named(y: Column, classes: Sequence[str], task: Task, path: Path, name: str) -> Dataset:
    """Targets whose texts are among these classes."""
    place = {text: number for number, text in enumerate(classes)}
    strange = sorted({str(text) for text in y} - place.keys())
    if strange:
        raise DataError(f"{path}: the network knows the classes {listed(list(classes))}, not {listed(strange)}.")
    numbers = np.array([place[str(text)] for text in y])
    found = Dataset.from_arrays(np.arange(len(y), dtype=np.float64), numbers, task, len(classes), name)
    return replace(found, classes=tuple(classes))


def _csv_task(y: NDArray[np.float64], where: str) -> Task:
    """A .csv has no types: targets are classes if they are just the numbers 0..K-1."""
    values = np.unique(y)
    if not np.isfinite(values).all() or (values != np.round(values)).any():
        return "regression"
    if len(values) > 1 and np.array_equal(values, np.arange(len(values))):
        return "classification"
    if len(values) > _MAX_GUESSED_CLASSES:
        return "regression"
    shown = ", ".join(f"{value:g}" for value in values[:8])
    raise DataError(
        f"{where}: the targets are the whole numbers {shown}, which may be classes or quantities; "
        "number classes from 0, or give task='regression'."
    )
