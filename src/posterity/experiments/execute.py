"""execute(run, folder): the only way a run comes about. It trains or resumes, evaluates, and stores a result."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from posterity import data
from posterity.core.errors import PosterityError, UsageError
from posterity.data import Dataset
from posterity.experiments.build import build_data, build_network
from posterity.experiments.evaluate import NOISE, Evaluation, evaluate
from posterity.experiments.predictions import write_stored
from posterity.experiments.record import Record
from posterity.experiments.run import Run
from posterity.experiments.trained import load_run
from posterity.prediction import DEFAULT_SAMPLES
from posterity.storage import RunDirectory, merge_json
from posterity.training import CHECKPOINT_SECONDS, Callback, Training, carry_out, current_ranks, plan
from posterity.training.stored import PYTHON, loading_notes, summary_of


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
    with more epochs than it has; a folder without a run is begun. It must be the same run, and is evaluated again on
    what it was evaluated on before. Of several processes (training.ranks) the first calls it, the others `accompany`.
    """
    place = RunDirectory(folder, resume=resume, overwrite=overwrite)
    place.resume = resume and place.config.exists()
    prolongs = False
    if place.resume:
        before = Record.read(folder)
        _refuse_change(before.run, run)
        prolongs = before.run.key != run.key
        if not prolongs and before.was_evaluated(samples, ood):
            _agreed(None)
            return before
        ood = [*ood, *_still_there(name for name in before.evaluation.get("ood", {}) if name not in ood)]
    _agreed(run)
    parts = build_data(run)
    net = build_network(run, parts.train)
    planned = plan(net, parts.train, parts.val, run)
    with place as directory:
        if not directory.resume:
            run.write(directory.config)
        planned.standardise(net, parts.standardisation)
        result = carry_out(
            net,
            planned,
            directory,
            callbacks=[*callbacks, *([_Prolong(run, directory)] if prolongs else [])],
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            extra=loading_notes(net, planned),
        )
        summary = {"key": run.key, **summary_of(result, planned)}
        directory.confirm()
        found = evaluate(load_run(folder), samples=samples, seed=run.seed, ood=ood)
        directory.confirm()
        _store(directory, summary, found, samples=samples, seed=run.seed)
    return Record.read(folder)


def _still_there(names: Iterable[str]) -> Iterator[str]:
    """The data sets among `names` that can be had, so that a long training does not fail at its end."""
    for name in names:
        try:
            if name != NOISE:
                data.load_test(name)
        except PosterityError as error:
            warnings.warn(
                f"{name}, on which the run was evaluated before, is left out: {error}", UserWarning, stacklevel=3
            )
        else:
            yield name


def accompany() -> None:
    """What the other processes do while the first executes a run: they train it, and neither read nor write."""
    run = _agreed(None)
    if run is not None:
        parts = build_data(run)
        net = build_network(run, parts.train)
        carry_out(net, plan(net, parts.train, parts.val, run), None)


def _agreed(run: Run | None) -> Run | None:
    """What the first of several processes trains; None where nothing is left to do."""
    ranks = current_ranks()
    return run if ranks is None else ranks.agree(run)


def evaluate_run(
    folder: str | Path,
    *,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    ood: Sequence[str] = (),
    model: nn.Module | None = None,
    test: Dataset | None = None,
) -> Record:
    """Evaluate the run in `folder`, as it stands, and store numbers and predictions there; not while it is training.

    A run from Python needs its `model` (load_run) and the raw data to evaluate on, `test`.
    """
    trained = load_run(folder, model)
    with RunDirectory(folder, resume=True) as directory:
        found = evaluate(trained, samples=samples, seed=seed, ood=ood, test=test)
        key = {"key": trained.run.key} if trained.run.model == PYTHON else {}
        unfinished = key if trained.finished else {"stopped": ""}  # whatever it was when its last checkpoint was whole
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
