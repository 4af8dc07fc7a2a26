"""From a run's names to objects."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from posterity import data
from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import DataError, UsageError, unknown_name
from posterity.core.randomness import derive, generator
from posterity.data import Dataset, Standardisation
from posterity.experiments.run import Run
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Likelihood
from posterity.models import build_model
from posterity.posteriors import posterior_options
from posterity.priors import FromPenalty, Gaussian, Laplace, PriorRule, ScaleMixture, StudentT


@dataclass(frozen=True)
class RunData:
    """Standardised parts, and what standardised them."""

    train: Dataset
    val: Dataset | None
    test: Dataset
    standardisation: Standardisation


def build_data(run: Run) -> RunData:
    """The run's data; the statistics come from what is trained on, without the held-out part."""
    splits = data.load(run.dataset, split=run.split, seed=run.seed, target=run.target, task=run.task)
    train, val = splits.train, None
    if run.val_fraction:
        try:
            train, val = train.split(run.val_fraction, generator(run.seed, "held out"))
        except DataError as error:
            raise DataError(f"{error} To hold out none: --val-fraction 0 (val_fraction=0)") from error
    scale = Standardisation.identity(train) if run.dataset == "and" else Standardisation.of(train)
    return RunData(scale.apply(train), val and scale.apply(val), scale.apply(splits.test), scale)


def build_likelihood_of(run: Run, dataset: Dataset) -> Likelihood:
    """The likelihood for the data's task."""
    if dataset.task == "regression":
        return GaussianNoise(run.noise, num_targets=dataset.num_outputs)
    return Categorical() if dataset.task == "classification" else Bernoulli()


def build_module(run: Run, input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """The run's plain network."""
    options: dict[str, Any] = {} if run.hidden is None else {"hidden": run.hidden}
    return build_model(run.model, input_shape, num_outputs, **options)


def build_network(run: Run, dataset: Dataset) -> BayesianModule:
    """The run's network with its initial weights, which the seed alone decides."""
    likelihood = build_likelihood_of(run, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(run.seed, "initial weights"))
        model = build_module(run, dataset.input_shape, likelihood.num_outputs(dataset.num_outputs))
        return bayesian(
            model,
            prior=build_prior(run),
            posterior=run.posterior,
            rho=run.rho,
            **{name: value for name, value in run if name in posterior_options(run.posterior)},
            select=_select(run, model),
            likelihood=likelihood,
            seed=run.seed,
        )


def build_prior(run: Run) -> PriorRule:
    """The run's prior, or the one its penalty stands for."""
    if run.penalty is not None:
        chosen = [name for name in ("prior", "prior_scale") if not run.is_default(name)]
        if chosen or run.learn_prior:
            raise UsageError(f"a penalty is a prior: leave out {', '.join(chosen) or 'learn_prior'}")
        return FromPenalty(run.penalty, run.penalty_factor)
    if run.prior == "mixture":
        return ScaleMixture(sd1=run.prior_scale)
    shapes = {"gaussian": Gaussian, "laplace": Laplace, "student_t": StudentT}
    if run.prior not in shapes:
        raise unknown_name("prior", run.prior, [*shapes, "mixture"])
    rule: PriorRule = shapes[run.prior](run.prior_scale)
    return rule


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
