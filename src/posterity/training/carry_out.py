"""Carry out a plan: the loop with checkpoints, signals and resumption. `fit` and `experiments.execute` end here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console

from posterity.bayesian import BayesianModule
from posterity.core.errors import PosterityError, UsageError
from posterity.core.randomness import derive
from posterity.ensemble import ensemble, pooled
from posterity.storage import History, RunDirectory, in_short, network_state
from posterity.training.callbacks import Callback
from posterity.training.distributed import SpreadTraining
from posterity.training.loop import Training
from posterity.training.plan import Plan
from posterity.training.progress import ProgressDisplay
from posterity.training.ranks import current_ranks
from posterity.training.resumption import check_network, check_resumable, description
from posterity.training.signals import Interrupted, SignalWatch

CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, repr=False)
class FitResult:
    """The trained network and how it got there; `stopped` says why the training ended.

    `averaged` is the average of its iterates, if one was asked for and there were snapshots enough for it. Of an
    ensemble `members` are the results of its members; its history has their records, with the number of the `member`.
    `ending` is what was found when the last step was taken: the noise of new data, the spread that the ELBO wants
    (training.arrival), warnings.
    """

    net: BayesianModule
    history: History
    stopped: str
    best_epoch: int | None
    seconds: float
    averaged: BayesianModule | None = None
    members: tuple[FitResult, ...] = ()
    ending: Mapping[str, Any] = field(default_factory=dict)

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
    if planned.members:
        given = {"callbacks": callbacks, "checkpoint_seconds": checkpoint_seconds, "progress": progress}
        return _carry_out_members(net, planned, directory, dict(extra or {}), **given)
    kept, ranks = _kept(planned, directory, callbacks), current_ranks()
    if progress and directory is not None and directory.resume and kept is None:
        Console(stderr=True).print(f"{directory.path} has no checkpoint yet: the run begins anew", highlight=False)
    watched = directory is not None or ranks is not None
    with SignalWatch(watched, patient=ranks is not None) as watch, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(planned.settings.seed, "modules"))
        history = History() if directory is None else History(directory.history, directory.confirm)
        if ranks is None:
            training = Training(net, planned, history=history, callbacks=callbacks)
        else:
            shown = [callback for callback in callbacks if callback.kept or ranks.leads]
            training = SpreadTraining(net, planned, ranks=ranks, watch=watch, history=history, callbacks=shown)
        if progress:
            training.callbacks.append(ProgressDisplay())
        writer = _Writer(training, directory, checkpoint_seconds, dict(extra or {}))
        _run(training, kept, writer, watch)
    best = training.best.get("epoch") if planned.settings.patience else None
    return FitResult(net, history, training.stopped, best, training.seconds, training.averaged, ending=training.ending)


def _kept(planned: Plan, directory: RunDirectory | None, callbacks: Sequence[Callback]) -> dict[str, Any] | None:
    """The state to go on from, if there is one; refused if it is another training's."""
    if directory is None or not directory.resume:
        return None
    kept = directory.checkpoints.read_latest()
    if kept is not None:
        own = [c for c in (*callbacks, planned.averaging) if c is not None and c.kept]
        check_resumable(planned, kept, num_callbacks=len(own))
    elif directory.member(1).path.exists():
        raise UsageError(f"{directory.path} holds an ensemble that was begun; a run resumes only with its own network")
    return kept


def _carry_out_members(
    net: BayesianModule, planned: Plan, directory: RunDirectory | None, extra: dict[str, Any], **given: Any
) -> FitResult:
    """Train the members one after the other; those that are trained already are only read."""
    network = {**description(planned), "posterior": {"kind": net.posterior.kind, **net.posterior.options()}}
    if directory is not None and directory.resume:
        before = directory.checkpoints.read_latest()
        if before is not None:
            check_network(network, before["description"])
        with warnings.catch_warnings():  # all refusals before the first step; what is said is said in its turn
            warnings.simplefilter("ignore")
            for number, one in enumerate(planned.members, 1):
                _kept(one, directory.member(number), given["callbacks"])
    results = []
    for number, one in enumerate(planned.members, 1):
        if given["progress"]:
            Console(stderr=True).print(f"member {number} of {len(planned.members)}", highlight=False)
        with directory.member(number) if directory is not None else nullcontext() as place:
            own = [callback.of_member(number) for callback in given["callbacks"]]
            results.append(carry_out(one.subject.net, one, place, **{**given, "callbacks": own}))
        one.groups.clear()  # the optimisers' states, which nobody needs any more
    result = _together(net, results, directory)
    if directory is not None:
        state = {
            "step": sum(each.history[-1]["step"] for each in results),
            "settings": planned.settings.training_values(),
            "description": network,
            "data": planned.data_checksum,
            "net": net.state_dict(),
            "stopped": result.stopped,
            "callbacks": [],
            "averaged": result.averaged and network_state(result.averaged),
            "extra": extra,
        }
        directory.checkpoints.write(state["step"], state, final=True)
    return result


def _together(net: BayesianModule, results: list[FitResult], directory: RunDirectory | None) -> FitResult:
    """The ensemble of trained members, whose posteriors are its components already."""
    net.prior = results[0].net.prior
    net.likelihood = pooled([each.net.likelihood for each in results])
    averages = [each.averaged for each in results if each.averaged is not None]
    averaged = ensemble(averages, seed=0) if len(averages) == len(results) else None
    history = History() if directory is None else History(directory.history, directory.confirm)
    history.restore(0)
    for number, each in enumerate(results, 1):
        for record in each.history:
            history.append({"member": number, **record})
    history.flush()
    history.tabulate()
    stopped = "; ".join(dict.fromkeys(each.stopped for each in results))
    warned = [warning for each in results for warning in each.ending["warnings"]]
    assert net.likelihood is not None
    ending = {**net.likelihood.learnt(), "warnings": list(dict.fromkeys(warned))}
    seconds = sum(each.seconds for each in results)
    return FitResult(net, history, stopped, None, seconds, averaged, tuple(results), ending)


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
    told = training if isinstance(training, SpreadTraining) else watch

    def heed_signal() -> None:
        if told.received is not None:
            writer.write(now=True)
            raise Interrupted(told.received, training.step)

    def train_epoch() -> None:
        for batch in training.batches:
            training.train_step(batch)
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
    if isinstance(training, SpreadTraining):
        training.align()
    for callback in training.callbacks:
        callback.on_start(training)
    try:
        while not training.stopped:
            train_epoch()
            training.end_epoch()
            writer.write(now=bool(training.stopped))
            if not training.stopped:
                heed_signal()
        training.history.tabulate()
    except BaseException:
        with suppress(PosterityError, OSError):  # what went wrong before is what is reported
            training.history.tabulate()
        raise
    finally:
        for callback in training.callbacks:
            callback.on_end(training)
