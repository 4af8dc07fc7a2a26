"""Carry out a plan: the loop with checkpoints, signals and resumption. `fit` and `experiments.execute` end here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from posterity.bayesian import BayesianModule
from posterity.core.randomness import derive
from posterity.storage import History, RunDirectory, in_short
from posterity.training.callbacks import Callback
from posterity.training.loop import Training
from posterity.training.plan import Plan
from posterity.training.progress import ProgressDisplay
from posterity.training.resumption import check_resumable
from posterity.training.signals import Interrupted, SignalWatch

CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, repr=False)
class FitResult:
    """The trained network and how it got there; `stopped` says why the training ended.

    `averaged` is the average of its iterates, if one was asked for and there were snapshots enough for it.
    """

    net: BayesianModule
    history: History
    stopped: str
    best_epoch: int | None
    seconds: float
    averaged: BayesianModule | None = None

    def __repr__(self) -> str:
        last = in_short(self.history[-1]) if self.history else ""
        ended = self.stopped + ("" if self.averaged is None else ", with an average")
        return f"FitResult({len(self.history)} epochs in {self.seconds:.1f} s, stopped: {ended}; {last})"


def carry_out(
    net: BayesianModule,
    planned: Plan,
    directory: RunDirectory | None,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> FitResult:
    """Train as planned, in an open directory if there is one; `extra` is stored in every checkpoint."""
    kept = directory.checkpoints.read_latest() if directory is not None and directory.resume else None
    if kept is not None:
        own = [c for c in (*callbacks, planned.averaging) if c is not None and c.kept]
        check_resumable(planned, kept, num_callbacks=len(own))
    with SignalWatch(directory is not None) as watch, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(planned.settings.seed, "modules"))
        history = History() if directory is None else History(directory.history, directory.confirm)
        training = Training(net, planned, history=history, callbacks=callbacks)
        if progress:
            training.callbacks.append(ProgressDisplay())
        writer = _Writer(training, directory, checkpoint_seconds, dict(extra or {}))
        _run(training, kept, writer, watch)
    best = training.best.get("epoch") if planned.settings.patience else None
    return FitResult(net, history, training.stopped, best, training.seconds, training.averaged)


class _Writer:
    """Writes checkpoints, not more often than it is told."""

    def __init__(
        self, training: Training, directory: RunDirectory | None, seconds: float, extra: dict[str, Any]
    ) -> None:
        self.training, self.directory, self.seconds, self.extra = training, directory, seconds, extra
        self.written = time.monotonic()

    def write(self, *, now: bool = False) -> None:
        """A checkpoint, if it is time for one."""
        if self.directory is None or not (now or time.monotonic() - self.written >= self.seconds):
            return
        training = self.training
        training.check_weights()
        training.history.flush()
        state = {**training.state(), "extra": self.extra}
        self.directory.checkpoints.write(training.step, state, final=bool(training.stopped))
        self.written = time.monotonic()


def _run(training: Training, kept: dict[str, Any] | None, writer: _Writer, watch: SignalWatch) -> None:
    def heed_signal() -> None:
        if watch.received is not None:
            writer.write(now=True)
            raise Interrupted(watch.received, training.step)

    def train_epoch() -> None:
        for index in training.batches:
            training.train_step(index)
            if training.stopped:
                return
            if training.batches.position < training.batches.num_batches:  # the last step's follows the epoch's end
                writer.write()
                heed_signal()

    if kept is not None:
        training.restore(kept)
    else:
        training.history.restore(0)
        writer.write(now=True)
    for callback in training.callbacks:
        callback.on_start(training)
    try:
        while not training.stopped:
            train_epoch()
            training.end_epoch()
            writer.write(now=bool(training.stopped))
            if not training.stopped:
                heed_signal()
    finally:
        for callback in training.callbacks:
            callback.on_end(training)
