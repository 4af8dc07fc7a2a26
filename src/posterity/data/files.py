"""Users' own data: `.npz` with arrays x and y (and x_test, y_test), `.csv` with a header."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.data.archives import read_npz
from posterity.data.dataset import Dataset, Splits, Task
from posterity.data.validation import as_floats, as_labels, check_inputs, count_classes, numeric

SUFFIXES = (".npz", ".csv")
_TEST_FRACTION = 0.2
_MAX_GUESSED_CLASSES = 20  # more distinct whole numbers than this are quantities


def read_splits(path: Path, *, seed: int = 0, target: str | None = None, task: Task | None = None) -> Splits:
    """Training and test data of a file: its own test arrays, or a random fifth by `seed`."""
    if _suffix(path) == ".csv":
        x, y = _read_csv_targets(path, target)
        task = task or _csv_task(y, str(path))
        labels = y.astype(np.int64) if task == "classification" and (y == np.round(y)).all() else y
        return _split(Dataset.from_arrays(x, labels, task, name=path.stem), seed)
    if target is not None:
        raise UsageError(f"target '{target}' names a column, but {path} is no .csv; its targets are array y.")
    arrays = read_npz(path)
    _require(arrays, ("x", "y"), path)
    if "x_test" not in arrays and "y_test" not in arrays:
        return _split(Dataset.from_arrays(arrays["x"], arrays["y"], task, name=path.stem), seed)
    _require(arrays, ("x_test", "y_test"), path)
    return _own_splits(arrays, task, path.stem)


def read_columns(path: Path, *, target: str | None = None) -> list[str]:
    """The names of a `.csv` file's input columns: all but `target`, or but the last."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = _header(next(csv.reader(file), []), path)
    return [name for name in names if name != (target or names[-1])]


def read_inputs(path: Path, *, target: str | None = None, columns: Sequence[str] = ()) -> Tensor:
    """Inputs to predict from: array x of an `.npz`, or its only one; a `.csv` without column `target`.

    With `columns`, those of the training data, a `.csv` gives just these, in this order.
    """
    if _suffix(path) == ".csv":
        names, table = _read_csv(path)
        missing = [name for name in columns if name not in names]
        if missing:
            raise DataError(f"{path} lacks the column {', '.join(missing)} that the network was trained on.")
        keep = [names.index(name) for name in columns]
        keep = keep or [number for number, name in enumerate(names) if name != target]
        if not keep:
            raise DataError(f"{path} has no column but the target '{target}'.")
        values: NDArray[np.generic] = table[:, keep]
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
    if suffix not in SUFFIXES:
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


def _read_csv_targets(path: Path, target: str | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs (rows, columns - 1), and the column `target`, or the last."""
    names, table = _read_csv(path)
    if target is not None and target not in names:
        raise UsageError(f"{path} has no column '{target}'; its columns are {', '.join(names)}.")
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


def _read_csv(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Column names and the table (rows, columns)."""
    values = array("d")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            names = _header(next(rows, []), path)
            for row in rows:
                if row:
                    values.extend(_numbers(row, names, f"{path}, line {rows.line_num}"))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFileError(f"cannot read {path} as a UTF-8 .csv file: {error}.") from error
    if not values:
        raise DataError(f"{path} has a header but no rows.")
    return names, np.array(values).reshape(-1, len(names))


def _header(row: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in row]
    if not names:
        raise DataError(f"{path} is empty; expected a header with the columns' names.")
    if all(_is_number(name) for name in names):
        raise DataError(f"{path} begins with numbers ({', '.join(names[:3])}); add a header with names.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path} has more than one column '{twice[0]}'; give each a name of its own.")
    return names


def _numbers(row: list[str], names: list[str], where: str) -> list[float]:
    if len(row) != len(names):
        raise DataError(f"{where} has {len(row)} cells, but the header names {len(names)} columns.")
    try:
        return [float(cell) for cell in row]
    except ValueError:
        column = next(number for number, cell in enumerate(row) if not _is_number(cell))
        raise DataError(
            f"{where}, column '{names[column]}': '{row[column]}' is not a number; "
            "fill gaps, and number categories and classes from 0."
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
