"""Predictions on disk: a run's own, which its figures and reports are drawn from, and files for people.

predictions.npz     arrays named network/data/what: last/test/mean, average/noise/confidence, last/test/targets, ...
                    moments only: samples would be many times larger
.csv, .npz          what `posterity predict` writes, for spreadsheets and with everything
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from posterity.core.errors import CorruptFileError, UsageError
from posterity.data.archives import read_npz
from posterity.likelihoods import ClassPrediction, Prediction, StudentPrediction
from posterity.storage import replace_file

if TYPE_CHECKING:
    from posterity.experiments.evaluate import Evaluation

MOMENTS = ("mean", "sd", "aleatoric_sd", "epistemic_sd")  # of numbers, what a table shows
Stored = dict[str, dict[str, dict[str, Tensor]]]  # network -> data -> name -> tensor


def write_stored(path: Path, evaluations: Mapping[str, Evaluation]) -> None:
    """The predictions of a run's networks, without their samples."""
    arrays: dict[str, Any] = {}
    for network, found in evaluations.items():
        predictions = {"test": found.prediction, **found.shifted_predictions}
        for name, prediction in predictions.items():
            for what, tensor in prediction.columns().items():
                arrays[f"{network}/{name}/{what}"] = tensor.numpy()
        arrays[f"{network}/test/targets"] = found.targets.numpy()
    replace_file(path, lambda partial: np.savez_compressed(partial, **arrays))


def read_stored(path: Path) -> Stored:
    """The inverse of `write_stored`; empty if nothing was stored."""
    found: Stored = {}
    if not path.exists():
        return found
    for name, array in read_npz(path).items():
        parts = name.split("/")
        if len(parts) != 3:
            raise CorruptFileError(f"{path} has an array '{name}' that no run stores")
        found.setdefault(parts[0], {}).setdefault(parts[1], {})[parts[2]] = torch.from_numpy(array)
    return found


def write_predictions(path: Path, prediction: Prediction, classes: Sequence[str] = ()) -> None:
    """Write `prediction` to `path`, atomically, with the names of its `classes`; the ending decides the format."""
    writers = {".csv": _write_csv, ".npz": _write_npz}
    suffix = path.suffix.lower()
    if suffix not in writers:
        raise UsageError(f"predictions are written as .csv or .npz, not '{path.name}'")
    try:
        replace_file(path, lambda partial: writers[suffix](partial, prediction, classes))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _write_npz(path: Path, prediction: Prediction, classes: Sequence[str]) -> None:
    contents: dict[str, Any] = {name: tensor.numpy() for name, tensor in prediction.columns().items()}
    if classes:
        contents["classes"] = np.array(classes)
    if prediction.samples is not None:
        contents["samples"] = prediction.samples.numpy()
    if isinstance(prediction, StudentPrediction) and prediction.df is not None:
        contents["df"] = prediction.df.numpy()
    with path.open("wb") as file:  # to a path with another ending, .NPZ say, numpy would add its own
        np.savez_compressed(file, **contents)


def _write_csv(path: Path, prediction: Prediction, classes: Sequence[str]) -> None:
    if isinstance(prediction, ClassPrediction):
        if prediction.mean.dim() > 2:
            raise UsageError(f"a table has no place for maps of classes: write them as .npz, not '{path.name}'")
        columns = {name: getattr(prediction, name) for name in ("label", "confidence", "aleatoric", "epistemic")}
        columns["p"] = prediction.mean
        names = [*list(columns)[:-1], *(f"p_{k}" for k in classes or range(prediction.mean.shape[1]))]
    else:
        known = prediction.columns()
        columns = {name: known[name] for name in (MOMENTS if "sd" in known else known)}
        widths = {name: column[0].numel() for name, column in columns.items()}
        names = [f"{name}_{j}" if width > 1 else name for name, width in widths.items() for j in range(width)]
    table = [_written(column.reshape(len(prediction), -1)) for column in columns.values()]
    if classes:
        table[names.index("label")] = [[classes[label]] for label in prediction.label.tolist()]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for cells in zip(*table, strict=True):
            writer.writerow([v for cell in cells for v in cell])


def _written(column: Tensor) -> list[list[Any]]:
    """The numbers of a column (n, k) with the digits that they have: all of a double's, 1e9 +- 4 needs them."""
    if column.dtype == torch.float64 or not column.is_floating_point():
        return column.tolist()  # the shortest text that gives a number again
    return [[f"{value:.10g}" for value in row] for row in column.tolist()]
