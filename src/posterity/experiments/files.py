"""Predictions to a file: a .csv for people and spreadsheets, an .npz with everything."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

from posterity.core.errors import UsageError
from posterity.likelihoods import Prediction, RealPrediction


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write `prediction` to `path`, atomically; the ending decides the format."""
    writers = {".csv": _write_csv, ".npz": _write_npz}
    if path.suffix not in writers:
        raise UsageError(f"predictions are written as .csv or .npz, not '{path.name}'")
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        writers[path.suffix](partial, prediction)
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _write_npz(path: Path, prediction: Prediction) -> None:
    contents: dict[str, Any] = prediction.to_numpy()
    np.savez_compressed(path, **contents)


def _write_csv(path: Path, prediction: Prediction) -> None:
    if isinstance(prediction, RealPrediction):
        sds = (prediction.sd, prediction.aleatoric_sd, prediction.epistemic_sd)
        names, columns = ["mean", "sd", "aleatoric_sd", "epistemic_sd"], [prediction.mean, *sds]
        if prediction.mean.shape[1] > 1:
            names = [f"{name}_{j}" for name in names for j in range(prediction.mean.shape[1])]
    else:
        names = ["label", "confidence", "aleatoric", "epistemic"]
        names += [f"p_{k}" for k in range(prediction.mean.shape[1])]
        columns = [prediction.label, prediction.confidence, prediction.aleatoric, prediction.epistemic]
        columns.append(prediction.mean)
    table = [column.reshape(len(prediction), -1).tolist() for column in columns]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for cells in zip(*table, strict=True):
            writer.writerow([f"{v:.7g}" if isinstance(v, float) else v for cell in cells for v in cell])
