"""From a run's names to objects."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from posterity import data
from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import DataError, UsageError, unknown_name
from posterity.core.randomness import derive, generator
from posterity.data import Dataset, Splits, Standardisation, Task
from posterity.ensemble import ensemble, member_seed
from posterity.experiments.kept_data import kept
from posterity.experiments.run import Run
from posterity.models import Embedded, build_model, check_model_options, default_model
from posterity.posteriors import POSTERIORS
from posterity.priors import PriorRule, build_prior, check_prior_options
from posterity.training.fitting_data import default_likelihood
from posterity.training.stored import PYTHON

Make = Callable[[Sequence[int], int], nn.Module]  # of the shape of one input and the number of outputs


@dataclass(frozen=True)
class RunData:
    """What is trained and validated on, standardised, and what standardised it."""

    train: Dataset
    val: Dataset | None
    standardisation: Standardisation


def build_data(run: Run) -> RunData:
    """The run's data; the statistics come from what is trained on, without the held-out part."""
    source = _source(run)
    drawn = data.is_seeded(run.dataset) or run.train_rows is not None or run.val_fraction > 0
    key = ("run", *source.values(), run.train_rows, run.val_fraction, run.seed if drawn else None)
    return kept(key, lambda: _build_data(run))


def _source(run: Run) -> dict[str, Any]:
    if run.dataset == PYTHON:
        raise UsageError(
            "the data of this run are a program's own: give them, evaluate_run(folder, test=...) or --data FILE; "
            "to go on with it, fit(..., out=folder, resume=True)"
        )
    return {name: getattr(run, name) for name in ("dataset", "split", "target", "task", "max_one_hot", "embedded")}


def _load(run: Run) -> Splits:
    source = _source(run)
    key = ("splits", *source.values(), run.seed if data.is_seeded(run.dataset) else None)
    return kept(key, lambda: data.load(source.pop("dataset"), seed=run.seed, **source))


def _build_data(run: Run) -> RunData:
    splits = _load(run)
    train, val = splits.train, None
    if run.train_rows is not None:
        train = train.sample(run.train_rows, generator(run.seed, "training rows"))
    if run.val_fraction:
        try:
            train, val = train.split(run.val_fraction, generator(run.seed, "held out"))
        except DataError as error:
            raise DataError(f"{error} To hold out none: --val-fraction 0 (val_fraction=0)") from error
    scale = Standardisation.identity(train) if splits.raw else Standardisation.of(train)
    return RunData(scale.apply(train), None if val is None else scale.apply(val), scale)


def load_test(run: Run) -> Dataset:
    """The run's test data, raw."""
    source = _source(run)
    key = ("test", *source.values(), run.test_rows, run.seed if data.is_seeded(run.dataset) else None)
    return kept(key, lambda: at_most(data.load_test(source.pop("dataset"), seed=run.seed, **source), run.test_rows))


def at_most(test: Dataset, rows: int | None) -> Dataset:
    """So many of the rows, always the same; all where there are no more."""
    return test if rows is None or rows >= len(test) else test.sample(rows, generator(0, "test rows"))


def build_module(
    run: Run,
    input_shape: Sequence[int],
    num_outputs: int,
    codes: Sequence[int] = (),
    make: Make | None = None,
) -> nn.Module:
    """The run's plain network, or that of `make`; a table's `codes` of categories are embedded before it."""
    if make is None:
        make = partial(_named, run)
    if not codes:
        return make(input_shape, num_outputs)
    return Embedded(input_shape[0], codes, lambda width: make((width,), num_outputs))


def _named(run: Run, input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    name, usual = default_model(input_shape) if run.model is None else (run.model, {})
    if run.model_options:
        check_model_options(name, run.model_options)
    hidden: dict[str, Any] = {} if run.hidden is None else {"hidden": run.hidden}
    if hidden and "hidden" in run.model_options:
        raise UsageError(f"give hidden ({run.hidden}) or the option of that name among model_options, not both")
    return build_model(name, input_shape, num_outputs, **{**usual, **run.model_options, **hidden})


def build_network(run: Run, dataset: Dataset, make: Make | None = None) -> BayesianModule:
    """The run's network with its initial weights, which the seed alone decides; an ensemble's by each member's seed.

    `make` gives another plain network than the one that the run names.
    """
    if run.ensemble == 1:
        return _build_one(run, dataset, make)
    seeds = [member_seed(run.seed, number) for number in range(1, run.ensemble + 1)]
    return ensemble([_build_one(run.model_copy(update={"seed": s}), dataset, make) for s in seeds], seed=run.seed)


def _build_one(run: Run, dataset: Dataset, make: Make | None) -> BayesianModule:
    _refuse_idle(run, dataset.task)
    if run.posterior_options:
        POSTERIORS[run.posterior].check_start(run.posterior_options)
    likelihood = default_likelihood(dataset, run.noise)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(run.seed, "initial weights"))
        codes = dataset.columns.codes if dataset.columns else ()
        outputs = likelihood.num_outputs(dataset.num_outputs)
        model = build_module(run, dataset.input_shape, outputs, codes, make)
        return bayesian(
            model,
            prior=_prior(run),
            posterior=run.posterior,
            rho=run.rho,
            relative_sd=run.relative_sd,
            relative_to=run.relative_to,
            init=run.init,
            select=_select(run, model),
            likelihood=likelihood,
            seed=run.seed,
            output=None,
            **run.posterior_options,
        )


def _prior(run: Run) -> PriorRule | None:
    """The run's prior; none where a penalty brings its own."""
    if run.penalty is None:
        if run.prior_options:
            check_prior_options(run.prior, run.prior_options)
        return build_prior(run.prior, scale=run.prior_scale, mean=run.prior_mean, **run.prior_options)
    own = ("prior", "prior_scale", "prior_mean", "prior_options", "learn_prior")
    chosen = [name for name in own if not run.is_default(name)]
    if chosen:
        raise UsageError(f"a penalty is a prior: leave out {', '.join(chosen)}")
    return None


def _refuse_idle(run: Run, task: Task) -> None:
    """Refuse what was given and has no effect on a network for this `task`; the plan does so for the training."""
    random = POSTERIORS[run.posterior].random
    for name, used, why in (
        ("rho", random and run.relative_sd is None, "a posterior that has standard deviations, without relative_sd"),
        ("relative_sd", random, "a posterior that has standard deviations, not with 'point'"),
        ("relative_to", run.relative_sd is not None, "a relative_sd: give one, or leave it out"),
        ("noise", task == "regression", f"regression, not with {task}"),
    ):
        if not used and not run.is_default(name):
            raise UsageError(f"{name} ({getattr(run, name)!r}) goes with {why}")


def _select(run: Run, model: nn.Module) -> list[str] | None:
    if not run.deterministic:
        return None
    names = [name for name, _ in model.named_parameters()]
    for pattern in run.deterministic:
        if not fnmatch.filter(names, pattern):
            raise unknown_name("weight pattern", pattern, names)
    chosen = [n for n in names if not any(fnmatch.fnmatchcase(n, p) for p in run.deterministic)]
    if not chosen:
        raise UsageError("all weights are deterministic; for a frequentist network use posterior 'point'")
    return chosen
