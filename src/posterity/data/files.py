"""Users' own data: `.npz` with arrays x and y (and x_test, y_test), `.csv` with a header.

A file is told from a data set's name by its suffix, in upper or lower case. A symbolic link counts by its own
suffix, not by that of what it leads to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posterity.core.errors import DataError, UsageError
from posterity.data.archives import read_npz
from posterity.data.dataset import Dataset, Task
from posterity.data.splits import Splits
from posterity.data.tables import listed, read_header, read_table
from posterity.data.validation import as_floats, as_labels, check_inputs, count_classes, numeric

_SUFFIXES = (".npz", ".csv")
_TEST_FRACTION = 0.2
_MAX_GUESSED_CLASSES = 20  # more distinct whole numbers than this are quantities


def is_file_name(name: str) -> bool:
    """Whether `name` is a file's path rather than a data set's name."""
    return Path(name).suffix.lower() in _SUFFIXES


def resolve_dataset(name: str) -> str:
    """A data set's name as it is, a file's path so that it holds in every working directory.

    Links among its folders are followed, as `..` means the real parent. The file itself keeps its name, as what
    it links to (a store of blobs) may have no suffix to tell its format by.
    """
    if not is_file_name(name):
        return name
    path = Path(name)
    return str(Path(os.path.realpath(path.parent)) / path.name)


def read_splits(path: Path, *, seed: int = 0, target: str | None = None, task: Task | None = None) -> Splits:
    """Training and test data of a file: its own test arrays, or a random fifth by `seed`."""
    if _suffix(path) == ".csv":
        return _split(read_dataset(path, target=target, task=task), seed)
    arrays = read_npz(path)
    if target is not None or not {"x_test", "y_test"} & arrays.keys():
        return _split(read_dataset(path, target=target, task=task), seed)
    _require(arrays, ("x", "y"), path)
    _require(arrays, ("x_test", "y_test"), path)
    return _own_splits(arrays, task, path.stem)


def read_dataset(path: Path, *, target: str | None = None, task: Task | None = None) -> Dataset:
    """All rows of a file as one data set."""
    if _suffix(path) == ".csv":
        x, y = _split_table(path, target)
        task = task or _csv_task(y, str(path))
        labels = y.astype(np.int64) if task == "classification" and (y == np.round(y)).all() else y
        return Dataset.from_arrays(x, labels, task, name=path.stem)
    if target is not None:
        raise UsageError(f"target '{target}' names a column, but {path} is no .csv; its targets are array y.")
    arrays = read_npz(path)
    _require(arrays, ("x", "y"), path)
    return Dataset.from_arrays(arrays["x"], arrays["y"], task, name=path.stem)


def read_columns(path: Path, *, target: str | None = None) -> list[str]:
    """The names of a `.csv` file's input columns: all but `target`, or but the last."""
    names = read_header(path)
    target = names[-1] if target is None else target
    return [name for name in names if name != target]


def read_inputs(path: Path, *, target: str | None = None, columns: Sequence[str] = ()) -> Tensor:
    """Inputs to predict from: array x of an `.npz`, or its only one; a `.csv` without column `target`.

    With `columns`, those of the training data, a `.csv` gives just these, in this order.
    """
    if _suffix(path) == ".csv":
        names, table = read_table(path)
        place = {name: number for number, name in enumerate(names)}
        missing = [name for name in columns if name not in place]
        if missing:
            raise DataError(f"{path} lacks the column {listed(missing)} that the network was trained on.")
        wanted = columns or [name for name in names if name != target]
        if not wanted:
            raise DataError(f"{path} has no column but the target '{target}'.")
        values: NDArray[np.generic] = table[:, [place[name] for name in wanted]]
    else:
        arrays = read_npz(path)
        if "x" not in arrays and len(arrays) != 1:
            raise DataError(f"{path} has the arrays {', '.join(arrays) or 'none'}; name the inputs x.")
        values = arrays["x"] if "x" in arrays else next(iter(arrays.values()))
    x = as_floats(values, f"{path}: inputs")
    x = x.unsqueeze(1) if x.ndim == 1 else x
    check_inputs(x, str(path))
    return x


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(f"{path} is neither a .npz nor a .csv file.")
    if not path.is_file():
        raise UsageError(f"there is no file {path}; check the path.")
    return suffix


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


def _split_table(path: Path, target: str | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs (rows, columns - 1), and the column `target`, or the last."""
    names, table = read_table(path)
    if target is not None and target not in names:
        raise UsageError(f"{path} has no column '{target}'; its columns are {listed(names)}.")
    if len(names) < 2:
        raise DataError(f"{path} has the single column '{names[0]}'; expected inputs and a target.")
    column = names.index(target) if target is not None else len(names) - 1
    return np.delete(table, column, axis=1), table[:, column]


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
