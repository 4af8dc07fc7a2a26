"""execute(run, folder): the only way a run comes about. It trains or resumes, evaluates, and stores a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from posterity.core.errors import UsageError
from posterity.experiments.build import build_data, build_network
from posterity.experiments.evaluate import Evaluation, evaluate
from posterity.experiments.predictions import write_stored
from posterity.experiments.record import Record
from posterity.experiments.run import Run
from posterity.experiments.trained import load_run, loading_notes
from posterity.prediction import DEFAULT_SAMPLES
from posterity.storage import RunDirectory, merge_json
from posterity.training import CHECKPOINT_SECONDS, Callback, Training, carry_out, plan


def execute(
    run: Run,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    samples: int = DEFAULT_SAMPLES,
    ood: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Record:
    """Train `run` in `folder`, evaluate it with `samples` weight samples, on `ood`, too, and read back the record.

    With `resume` what is there is gone on with: an unfinished run from its checkpoint, a finished one not at all, or
    with more epochs than it has; a folder without a run is begun. It must be the same run.
    """
    place = RunDirectory(folder, resume=resume, overwrite=overwrite)
    place.resume = resume and place.config.exists()
    prolongs = False
    if place.resume:
        before = Record.read(folder)
        _refuse_change(before.run, run)
        prolongs = before.run.key != run.key
        if not prolongs and before.was_evaluated(samples, ood):
            return before
    parts = build_data(run)
    net = build_network(run, parts.train)
    planned = plan(net, parts.train, parts.val, run)
    with place as directory:
        if not directory.resume:
            run.write(directory.config)
        result = carry_out(
            net,
            planned,
            directory,
            callbacks=[*callbacks, *([_Prolong(run, directory)] if prolongs else [])],
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            extra=loading_notes(run, parts, net),
        )
        summary = {
            "key": run.key,
            "stopped": result.stopped,
            "best_epoch": result.best_epoch,
            "num_weights": net.num_weights,
            "num_data": len(parts.train),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "last": result.history[-1],
            "ending": dict(result.ending),
        }
        directory.confirm()
        found = evaluate(load_run(folder), samples=samples, seed=run.seed, ood=ood)
        directory.confirm()
        _store(directory, summary, found, samples=samples, seed=run.seed)
    return Record.read(folder)


def evaluate_run(
    folder: str | Path, *, samples: int = DEFAULT_SAMPLES, seed: int = 0, ood: Sequence[str] = ()
) -> Record:
    """Evaluate the run in `folder`, as it stands, and store numbers and predictions there; not while it is training."""
    trained = load_run(folder)
    with RunDirectory(folder, resume=True) as directory:
        found = evaluate(trained, samples=samples, seed=seed, ood=ood)
        unfinished = {} if trained.finished else {"stopped": ""}  # whatever it was when its last checkpoint was whole
        directory.confirm()
        _store(directory, unfinished, found, samples=samples, seed=seed)
    return Record.read(folder)


class _Prolong(Callback):
    """Writes the config of a run that goes on for longer, once it does."""

    kept = False

    def __init__(self, run: Run, directory: RunDirectory) -> None:
        self.run, self.directory = run, directory

    def on_start(self, training: Training) -> None:
        self.run.write(self.directory.config)


def _store(
    directory: RunDirectory, summary: dict[str, Any], found: Mapping[str, Evaluation], *, samples: int, seed: int
) -> None:
    last, average = found["last"], found.get("average")
    numbers: dict[str, Any] = {**last.as_dict(), **({"average": average.as_dict()} if average else {})}
    write_stored(directory.predictions, found)
    merge_json(directory.summary, {**summary, "evaluation": {**numbers, "samples": samples, "seed": seed}})


def _refuse_change(before: Run, now: Run) -> None:
    changed = now.changed_from(before)
    if "epochs" in changed:
        rows = len(build_data(now).train)  # which decide the length of a run that was given none
        if now.num_epochs(rows) >= before.num_epochs(rows):
            del changed["epochs"]
    if changed:
        words = "; ".join(f"{name} is {a!r} there, {b!r} here" for name, (a, b) in changed.items())
        raise UsageError("cannot resume with other settings: " + words)
