"""Train a run in its directory, and load a trained run from it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, UsageError
from posterity.data import Standardisation, Task, read_columns
from posterity.experiments.build import RunData, build_data, build_module, build_network
from posterity.experiments.run import Run
from posterity.objectives.tempering import as_rule
from posterity.saving import describe, rebuild
from posterity.training import Checkpoints, FitResult, RunDirectory, Settings, fit
from posterity.training.averaging import Averaging
from posterity.training.fit import CHECKPOINT_SECONDS
from posterity.training.idle import refuse_idle


@dataclass(frozen=True)
class TrainedRun:
    """A network as its run left it, and what its inputs and outputs mean."""

    run: Run
    net: BayesianModule
    standardisation: Standardisation
    input_shape: tuple[int, ...]
    task: Task
    num_classes: int
    finished: bool
    columns: tuple[str, ...] = ()
    averaged: BayesianModule | None = None

    def average(self) -> TrainedRun:
        """The same run with the average of its iterates for its network."""
        if self.averaged is None:
            why = "it was trained without --average, or stopped before there were snapshots enough"
            raise UsageError("the run has no average: " + (why if self.finished else "it has not finished yet"))
        return replace(self, net=self.averaged, averaged=None)


def train_run(
    run: Run,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> FitResult:
    """Train `run` in the directory `out`; with `resume`, `run` must be the one that is there."""
    settings = Settings.of(**run.settings())
    if settings.patience and not run.val_fraction:
        raise UsageError("patience needs validation data: give a val_fraction above 0")
    parts = build_data(run)
    net = build_network(run, parts.train)
    if not resume:
        run.refuse_idle(parts.train.task)
        refuse_idle(net, settings)
    if settings.averaging:
        Averaging(net, settings, len(parts.train))  # refuses what cannot be averaged before a directory is made
    as_rule(settings.temperature).bind(net, len(parts.train))  # refused here: before the directory is touched
    with RunDirectory(out, resume=resume, overwrite=overwrite) as directory:
        if resume and directory.config.exists():
            _refuse_change(Run.read(directory.config), run)
        else:
            run.write(directory.config)
        result = fit(
            net,
            parts.train,
            parts.val,
            out=directory,
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            extra=_description(run, parts, net),
            **run.settings(),
        )
        write_summary(
            directory.summary,
            {
                "key": run.key,
                "stopped": result.stopped,
                "best_epoch": result.best_epoch,
                "num_weights": net.num_weights,
                "num_data": len(parts.train),
                "last": result.history[-1],
            },
        )
    return result


def _description(run: Run, parts: RunData, net: BayesianModule) -> dict[str, Any]:
    """What `load_run` needs beside the weights."""
    return {
        "standardisation": parts.standardisation.state(),
        "network": describe(net),
        "input_shape": list(parts.train.input_shape),
        "num_outputs": net.likelihood.num_outputs(parts.train.num_outputs) if net.likelihood else 0,
        "task": parts.train.task,
        "num_classes": parts.train.num_classes,
        "columns": _columns(run),
    }


def _columns(run: Run) -> list[str]:
    """Names of a .csv file's input columns, so that predictions find them by name."""
    path = Path(run.dataset)
    return read_columns(path, target=run.target) if path.suffix.lower() == ".csv" else []


def load_run(path: str | Path) -> TrainedRun:
    """The network of the run in `path`, from its newest whole checkpoint."""
    directory = RunDirectory(path)
    run = Run.read(directory.config)
    state = Checkpoints(directory.path / "checkpoint").read_latest()
    if state is None:
        raise UsageError(f"{path} has no checkpoint yet; train it with: posterity train --out {path} --resume")
    try:
        extra = state["extra"]
        shape = tuple(extra["input_shape"])
        model = build_module(run, shape, extra["num_outputs"])
        net = _network(extra["network"], state["net"], model)
        averaged = state["averaged"] and _network(**state["averaged"], model=model)
        return TrainedRun(
            run,
            net,
            Standardisation.from_state(extra["standardisation"]),
            shape,
            extra["task"],
            extra["num_classes"],
            bool(state["stopped"]),
            tuple(extra["columns"]),
            averaged,
        )
    except (KeyError, RuntimeError) as error:
        raise CorruptFileError(f"the checkpoint in {path} does not describe a network: {error}") from error


def _network(network: dict[str, Any], net: Mapping[str, Tensor], model: nn.Module) -> BayesianModule:
    """The network of this description and these tensors, around a copy of `model`."""
    built = rebuild(network, model)
    built.load_state_dict(net)
    return built.eval()


def write_summary(path: Path, values: Mapping[str, Any]) -> None:
    """Merge `values` into the summary, atomically."""
    try:
        before = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise CorruptFileError(f"{path} is not JSON ({error}); remove it and try again") from error
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**before, **values}, indent=1) + "\n")
    os.replace(partial, path)


def _refuse_change(before: Run, now: Run) -> None:
    old, new = before.model_dump(), now.model_dump()
    changed = [f"{k} is {old[k]!r} there, {new[k]!r} here" for k in new if old[k] != new[k]]
    if changed:
        raise UsageError("cannot resume with other settings: " + "; ".join(changed))
