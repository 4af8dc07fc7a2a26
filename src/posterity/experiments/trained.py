"""A network as its run left it, and what its inputs and outputs mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.data import Columns, Standardisation, Task
from posterity.data.files import encoded
from posterity.data.frames import is_frame
from posterity.experiments.build import RunData, build_module
from posterity.experiments.run import Run
from posterity.likelihoods import Prediction
from posterity.prediction import DEFAULT_SAMPLES
from posterity.storage import RunDirectory, rebuild


@dataclass(frozen=True)
class Trained:
    """A run's network; its inputs are standardised and its outputs put back into the targets' own units."""

    run: Run
    net: BayesianModule
    standardisation: Standardisation
    input_shape: tuple[int, ...]
    task: Task
    num_classes: int
    finished: bool
    columns: Columns | None = None
    classes: tuple[str, ...] = ()
    averaged: BayesianModule | None = None

    def average(self) -> Trained:
        """The same run with the average of its iterates for its network."""
        if self.averaged is None:
            why = "it was trained without --average, or stopped before there were snapshots enough"
            raise UsageError("the run has no average: " + (why if self.finished else "it has not finished yet"))
        return replace(self, net=self.averaged, averaged=None)

    def networks(self) -> dict[str, Trained]:
        """`last` as the training ended, and `average` if there is one."""
        average = {} if self.averaged is None else {"average": self.average()}
        return {"last": replace(self, averaged=None), **average}

    def predict(self, x: ArrayLike | Tensor, samples: int = DEFAULT_SAMPLES, *, seed: int | None = None) -> Prediction:
        """The predictive at raw inputs `x` (n, ...), or at the rows of a frame, in the targets' own units."""
        x = torch.from_numpy(encoded(x, self.columns, "the inputs")) if is_frame(x) else x
        x = x if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x))  # lists keep all their digits
        if x.dim() == 0 or len(x) == 0:
            raise DataError(f"there are no inputs to predict from: their shape is {tuple(x.shape)}")
        if x[0].numel() == prod(self.input_shape):
            x = x.reshape(-1, *self.input_shape)  # images as rows of a table, or without a channel
        if tuple(x.shape[1:]) != self.input_shape:
            raise DataError(
                f"the inputs have shape {tuple(x.shape[1:])}; the network was trained on {self.input_shape}"
            )
        prediction = self.net.predict(self.standardisation.inputs(x), samples, seed=seed)
        if self.task != "regression":
            return prediction
        return prediction.rescaled(self.standardisation.y_mean, self.standardisation.y_sd)


def loading_notes(run: Run, parts: RunData, net: BayesianModule) -> dict[str, Any]:
    """What `load_run` needs beside the weights: plain values and tensors for a checkpoint."""
    assert net.likelihood is not None
    columns = parts.train.columns
    return {
        "standardisation": parts.standardisation.state(),
        "input_shape": list(parts.train.input_shape),
        "num_outputs": net.likelihood.num_outputs(parts.train.num_outputs),
        "task": parts.train.task,
        "num_classes": parts.train.num_classes,
        "columns": [] if columns is None else columns.as_dict(),  # so that predictions find them by name
        "classes": list(parts.train.classes),
    }


def load_run(path: str | Path) -> Trained:
    """The network of the run in `path`, from its newest whole checkpoint."""
    directory = RunDirectory(path)
    run = Run.read(directory.config)
    state = directory.checkpoints.read_latest()
    if state is None:
        raise UsageError(f"{path} has no checkpoint yet; train it with: posterity train --out {path} --resume")
    try:
        extra = state["extra"]
        shape = tuple(extra["input_shape"])
        columns = _columns(extra["columns"])
        model = build_module(run, shape, extra["num_outputs"], columns.codes if columns else ())
        averaged = state["averaged"] and _network(**state["averaged"], model=model)
        return Trained(
            run,
            _network(state["description"], state["net"], model),
            Standardisation.from_state(extra["standardisation"]),
            shape,
            extra["task"],
            extra["num_classes"],
            bool(state["stopped"]),
            columns,
            tuple(extra.get("classes", ())),
            averaged,
        )
    except (KeyError, RuntimeError) as error:
        raise CorruptFileError(f"the checkpoint in {path} does not describe a network: {error}") from error


def _columns(kept: list[Any]) -> Columns | None:
    """What a table's columns were; a run of earlier versions has the names of its numbers alone."""
    if not kept:
        return None
    return Columns.from_dict([{"name": each} if isinstance(each, str) else each for each in kept])


def _network(network: dict[str, Any], net: Mapping[str, Tensor], model: nn.Module) -> BayesianModule:
    """The network of this description and these tensors, around a copy of `model`."""
    built = rebuild(network, model)
    built.load_state_dict(net)
    return built.eval()
