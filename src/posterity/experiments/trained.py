"""A network as its run left it, and what its inputs and outputs mean."""

from __future__ import annotations

import functools
import importlib
import os
import sys
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
from posterity.core.inputs import Inputs
from posterity.core.reading import Output
from posterity.data import Columns, Standardisation, Task
from posterity.data.files import encoded
from posterity.data.frames import is_frame
from posterity.experiments.build import build_module
from posterity.experiments.run import Run
from posterity.likelihoods import Likelihood, Prediction
from posterity.prediction import DEFAULT_SAMPLES
from posterity.storage import RunDirectory, rebuild
from posterity.training.stored import PYTHON


@dataclass(frozen=True)
class Trained:
    """A run's network; its inputs are standardised and its outputs put back into the targets' own units."""

    run: Run
    net: BayesianModule
    input_shape: tuple[int, ...] | None  # of one input; None where there are several
    task: Task
    num_classes: int
    finished: bool
    columns: Columns | None = None
    classes: tuple[str, ...] = ()
    averaged: BayesianModule | None = None

    @property
    def network(self) -> BayesianModule:
        """The network, which takes raw inputs and answers in the targets' own units."""
        return self.net

    @property
    def standardisation(self) -> Standardisation:
        """What standardises its inputs, and its targets."""
        assert self.net.standardisation is not None
        return self.net.standardisation

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

    def predict(self, x: ArrayLike | Inputs, samples: int = DEFAULT_SAMPLES, *, seed: int | None = None) -> Prediction:
        """The predictive at raw inputs `x` (n, ...), or at the rows of a frame, in the targets' own units."""
        if self.input_shape is None:
            return self.net.predict(x, samples, seed=seed)
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
        return self.net.predict(x, samples, seed=seed)


def load_run(
    path: str | Path,
    model: nn.Module | None = None,
    *,
    likelihood: type[Likelihood] | None = None,
    output: Output | None = None,
) -> Trained:
    """The network of the run in `path`, from its newest whole checkpoint.

    A run that `fit` made, with a module that has no name here, takes one of the same architecture as `model`; a
    `likelihood` of your own class and an `output` that is a function are given as to `load`.
    """
    directory = RunDirectory(path)
    run = Run.read(directory.config)
    state = directory.checkpoints.read_latest()
    if state is None:
        raise UsageError(f"{path} has no checkpoint yet; train it with: posterity train --out {path} --resume")
    try:
        extra = state["extra"]
        shape = None if extra["input_shape"] is None else tuple(extra["input_shape"])
        if model is None and run.model == PYTHON:
            raise UsageError(
                f"the network in {path} is a program's own ({extra['module']}), which no file holds: give a module of "
                "that architecture, load_run(folder, model=...), or on the command line --module package.module:name"
            )
        columns = _columns(extra["columns"])
        if model is None:
            assert shape is not None  # a run by name has one input
            model = build_module(run, shape, extra["num_outputs"], columns.codes if columns else ())
        own: dict[str, Any] = {"model": model, "likelihood": likelihood, "output": output}
        averaged = state["averaged"] and _network(**state["averaged"], **own)
        nets = [net for net in (_network(state["description"], state["net"], **own), averaged) if net is not None]
        for net in nets if extra["standardisation"] is not None else ():
            net.standardisation = Standardisation.from_state(extra["standardisation"])
        return Trained(
            run,
            nets[0],
            shape,
            extra["task"],
            extra["num_classes"],
            bool(state["stopped"]),
            columns,
            tuple(extra.get("classes", ())),
            averaged or None,
        )
    except (KeyError, RuntimeError) as error:
        raise CorruptFileError(f"the checkpoint in {path} does not describe a network: {error}") from error


def _columns(kept: list[Any]) -> Columns | None:
    """What a table's columns were; a run of earlier versions has the names of its numbers alone."""
    if not kept:
        return None
    return Columns.from_dict([{"name": each} if isinstance(each, str) else each for each in kept])


def _network(network: dict[str, Any], net: Mapping[str, Tensor], model: nn.Module, **own: Any) -> BayesianModule:
    """The network of this description and these tensors, around a copy of `model`; `own` as `rebuild` has it."""
    built = rebuild(network, model, **own)
    built.load_state_dict(net)
    return built.eval()


def module_named(name: str) -> nn.Module:
    """The module that `package.module:name` leads to: one, or what a class or a function without arguments gives."""
    place, colon, attribute = name.partition(":")
    if not (place and colon and attribute):
        raise UsageError(f"a module is named as package.module:name, not '{name}'")
    sys.path.insert(0, os.getcwd())  # as with python -m
    try:
        found: Any = functools.reduce(getattr, attribute.split("."), importlib.import_module(place))
        made = found if isinstance(found, nn.Module) else found()
    except (ImportError, AttributeError, TypeError) as error:
        raise UsageError(f"'{name}' does not lead to a module: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(made, nn.Module):
        raise UsageError(f"'{name}' gives a {type(made).__name__}, not an nn.Module")
    return made
