"""fit: train a Bayesian network, with checkpoints and resumption if it is given a place to write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import DataError, UsageError
from posterity.core.randomness import derive
from posterity.data import Dataset
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Likelihood
from posterity.objectives.tempering import as_rule
from posterity.training.averaging import Averaging
from posterity.training.callbacks import Callback
from posterity.training.directory import RunDirectory
from posterity.training.groups import build_groups
from posterity.training.history import History, in_short
from posterity.training.idle import refuse_idle
from posterity.training.loop import Training
from posterity.training.progress import ProgressDisplay
from posterity.training.settings import Settings
from posterity.training.signals import Interrupted, SignalWatch

CHECKPOINT_SECONDS = 30.0
Data = Dataset | tuple[Any, Any]


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


def fit(
    net: BayesianModule,
    train: Data,
    val: Data | None = None,
    *,
    likelihood: Likelihood | None = None,
    out: str | Path | RunDirectory | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    extra: Mapping[str, Any] | None = None,
    **settings: Any,
) -> FitResult:
    """Train `net` on `train`, a Dataset or a pair (x, y); `settings` are those of `Settings`.

    The likelihood follows from the task unless one is given, here or with the network. With `out` the run
    writes history and checkpoints there (one at least every `checkpoint_seconds`), stops in good order on
    SIGINT and SIGTERM, and continues bit for bit with `resume`. `extra` is stored in every checkpoint.
    """
    if not isinstance(net, BayesianModule):
        raise UsageError(f"fit trains a Bayesian network; make one with bayesian({type(net).__name__}(...))")
    options = Settings.of(**settings)
    train, val = as_dataset(train), None if val is None else as_dataset(val)
    if options.patience and val is None:
        raise UsageError("patience needs validation data")
    net.likelihood = likelihood or net.likelihood or default_likelihood(train).to(net.posterior.mean)
    for part in (train, val):
        if part is not None:
            check_fit(net, net.likelihood, part)
    if not (out.resume if isinstance(out, RunDirectory) else resume):
        refuse_idle(net, options)
    build_groups(net, options, num_data=len(train), batch_size=options.batch_size)  # refuses wrong options
    averaging = [Averaging(net, options, len(train))] if options.averaging else []  # refuses what cannot be averaged
    if not net.posterior.has_kl(net.prior):
        raise UsageError(
            f"there is no KL from a {net.posterior.kind} posterior to a prior over groups of weights, which training "
            "records: take posterior 'mean_field', or a prior of independent weights"
        )
    as_rule(options.temperature).bind(net, len(train))  # refuses a rule that this network does not have
    shown = [ProgressDisplay()] if progress else []
    with ExitStack() as stack:
        directory = None
        if isinstance(out, RunDirectory):
            directory = out
        elif out is not None:
            directory = stack.enter_context(RunDirectory(out, resume=resume, overwrite=overwrite))
        watch = stack.enter_context(SignalWatch(directory is not None))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.manual_seed(derive(options.seed, "modules"))
        history = History(directory.history if directory else None)
        # The average looks last, when it is known whether the training has ended.
        hooks = [*callbacks, *averaging, *shown]
        training = Training(net, net.likelihood, train, val, options, history=history, callbacks=hooks)
        _run(training, directory, watch, checkpoint_seconds, dict(extra or {}))
    best = training.best.get("epoch") if options.patience else None
    return FitResult(net, history, training.stopped, best, training.seconds, training.averaged)


def _run(
    training: Training,
    directory: RunDirectory | None,
    watch: SignalWatch,
    checkpoint_seconds: float,
    extra: dict[str, Any],
) -> None:
    written = time.monotonic()

    def checkpoint(*, now: bool = False) -> None:
        nonlocal written
        if directory is None or not (now or time.monotonic() - written >= checkpoint_seconds):
            return
        training.check_weights()
        training.history.flush()
        state = {**training.state(), "extra": extra}
        directory.checkpoints.write(training.step, state, final=bool(training.stopped))
        written = time.monotonic()

    def heed_signal() -> None:
        if watch.received is not None:
            checkpoint(now=True)
            raise Interrupted(watch.received, training.step)

    def train_epoch() -> None:
        for index in training.batches:
            training.train_step(index)
            if training.stopped:
                return
            if training.batches.position < training.batches.num_batches:  # the last step's follows the epoch's end
                checkpoint()
                heed_signal()

    kept = directory.checkpoints.read_latest() if directory and directory.resume else None
    if kept is not None:
        training.restore(kept)
    else:
        training.history.restore(0)
        checkpoint(now=True)
    for callback in training.callbacks:
        callback.on_start(training)
    try:
        while not training.stopped:
            train_epoch()
            training.end_epoch()
            checkpoint(now=bool(training.stopped))
            if not training.stopped:
                heed_signal()
    finally:
        for callback in training.callbacks:
            callback.on_end(training)


def default_likelihood(data: Dataset) -> Likelihood:
    """The usual likelihood for the data's task."""
    if data.task == "classification":
        return Categorical()
    if data.task == "binary":
        return Bernoulli()
    return GaussianNoise("learnt", num_targets=data.num_outputs)


def check_fit(net: BayesianModule, likelihood: Likelihood, data: Dataset) -> None:
    """Refuse data that does not fit the network, before anything is changed."""
    weights = net.posterior.mean.detach()
    if data.x.is_floating_point() and data.x.dtype != weights.dtype:
        raise DataError(f"the inputs are {data.x.dtype}, the network's weights {weights.dtype}; convert one")
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            output = net.call(weights, data.x[:2])
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the network cannot take inputs of shape {data.input_shape}: {reason}") from error
    finally:
        net.train(was_training)
    if not isinstance(output, Tensor):
        raise UsageError(f"the network must return one tensor, not {type(output).__name__}")
    expected = likelihood.num_outputs(data.num_outputs)
    if output.shape[1:] != (expected,):
        what = "classes" if data.task == "classification" else "targets"
        one_logit = output.shape[1:] == (1,) and data.num_classes == 2
        hint = "; for one logit give the labels as task='binary'" if one_logit else ""
        if data.task == "regression" and likelihood.kind == GaussianNoise.kind:
            hint = "; float targets mean regression: for classes give integers"
        raise DataError(
            f"the network gives outputs of shape {tuple(output.shape[1:])}; {data.name} with {data.num_outputs} "
            f"{what} and a {likelihood.kind} likelihood needs ({expected},)" + hint
        )


def as_dataset(data: Data) -> Dataset:
    """`data` itself, or made of a pair (x, y)."""
    if not isinstance(data, Dataset) and not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise DataError(
            f"training data are a posterity.Dataset or a pair (x, y) of arrays, not a {type(data).__name__}; "
            "data are kept in memory as tensors, so that no loader is needed"
        )
    return data if isinstance(data, Dataset) else Dataset.from_arrays(*data)
