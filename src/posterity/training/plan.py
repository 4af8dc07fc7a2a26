"""The plan of a training: everything that can be refused is refused here, and nothing is changed.

    plan(net, train, val, settings)  ->  Plan  ->  Training(net, plan)

The plan holds what the loop is built from (likelihood, prior, groups with their optimisers, temperature, average); the
loop checks no more. A refused `fit` leaves the network, the data and the disk as they were.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import DataError, UsageError
from posterity.data import Dataset
from posterity.data.augmentation import AUGMENTATIONS, check_augmentation
from posterity.ensemble import member_seed, members
from posterity.estimators import SAMPLE
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Likelihood
from posterity.objectives import check_estimate, check_learnable
from posterity.objectives.estimate import kind_of
from posterity.objectives.tempering import TEMPERATURES
from posterity.optim import check_schedule_options
from posterity.posteriors import Mixture
from posterity.priors import FlatPenalty, FromPenalty, Gaussian, Prior
from posterity.training.averaging import OF_AVERAGES, Averaging
from posterity.training.groups import ParameterGroup
from posterity.training.methods import METHODS, Method, Subject
from posterity.training.ranks import check_spreadable, current_ranks
from posterity.training.settings import Settings

Data = Dataset | tuple[Any, Any]
Temperature = Callable[[float], float]  # of the epochs done
Augmentation = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Plan:
    """What a training is built from. Its optimisers are over the network's own parameters."""

    settings: Settings
    subject: Subject
    train: Dataset
    val: Dataset | None
    method: Method
    groups: list[ParameterGroup]
    temperature: Temperature
    averaging: Averaging | None
    augment: Augmentation | None
    members: tuple[Plan, ...] = ()  # of an ensemble, whose members are trained each by itself; the rest is the first's

    @cached_property
    def data_checksum(self) -> int:
        """CRC-32 of all that is trained and validated on."""
        sets = [part for part in (self.train, self.val) if part is not None]
        parts = [tensor for part in sets for tensor in (part.x, part.y, part.weight) if tensor is not None]
        value = 0
        for tensor in parts:
            raw: Any = tensor.detach().cpu().flatten().view(torch.uint8).numpy()
            value = zlib.crc32(raw, value)
        return value


def plan(
    net: BayesianModule, train: Data, val: Data | None, settings: Settings, *, likelihood: Likelihood | None = None
) -> Plan:
    """How `net` is trained on `train` with these settings, or the reason why it cannot be.

    In this order, as each relies on those before it: data, family, settings without effect, prior, gradient, method.
    """
    if not isinstance(net, BayesianModule):
        raise UsageError(f"fit trains a Bayesian network; make one with bayesian({type(net).__name__}(...))")
    if isinstance(net.posterior, Mixture):
        return _plan_members(net, train, val, settings, likelihood)
    like = net.posterior.mean
    train, val = as_dataset(train, like.dtype), None if val is None else as_dataset(val, like.dtype)
    if settings.patience and val is None:
        raise UsageError("patience needs validation data: give some, or a val_fraction above 0")
    likelihood = likelihood or net.likelihood or default_likelihood(train).to(like)
    check_fit(net, likelihood, train)
    if val is not None:
        _check_alike(train, val)
    if settings.augmentation is not None:
        check_augmentation(settings.augmentation, train.input_shape)
    if not net.posterior.trainable:
        raise UsageError(f"a posterior of the family '{net.posterior.kind}' has nothing to train")
    method = METHODS[settings.optimizer]
    _refuse_idle(settings, averages=bool(settings.average or method.collects))
    prior = _prior(net, settings)
    check_estimate(settings.estimator, settings.gradient, settings.baseline, settings.samples)
    if not net.posterior.random and settings.estimator != SAMPLE:
        raise UsageError(
            f"estimator ('{settings.estimator}') draws weights, of which a {net.posterior.kind} posterior has but one: "
            "leave it out"
        )
    kind_of(net.posterior, prior, settings.estimator, settings.gradient)
    if current_ranks() is not None:
        check_spreadable(net, estimator=settings.estimator, rank_noise=settings.rank_noise)
    if not net.posterior.has_kl(prior):
        raise UsageError(
            f"there is no KL from a {net.posterior.kind} posterior to a prior over groups of weights, which training "
            "records: take posterior 'mean_field', or a prior of independent weights"
        )
    if settings.learn_prior:
        check_learnable(net.posterior, prior)
    num_data = len(train.x)
    settings = settings.model_copy(update={"epochs": settings.num_epochs(num_data)})
    subject = Subject(net, prior, likelihood, settings, num_data, min(settings.batch_size, num_data))
    method.refuse(subject)
    if settings.schedule_options or settings.schedule_sd_options:
        for sd in (False, True):
            check_schedule_options(*settings.schedule_of(sd=sd))
    return Plan(
        settings,
        subject,
        train,
        val,
        method,
        method.groups(subject),
        settings.temperature_rule.bind(net, num_data),
        Averaging.of(net, settings, method, num_data),
        None if settings.augmentation is None else AUGMENTATIONS[settings.augmentation],
    )


def _plan_members(
    net: BayesianModule, train: Data, val: Data | None, settings: Settings, likelihood: Likelihood | None
) -> Plan:
    """Each member's plan is that of the network by itself, but for its seed."""
    if settings.learn_prior:
        raise UsageError("learn_prior would give each member of an ensemble its own prior; they have one: leave it out")
    dtype = net.posterior.mean.dtype
    train, val = as_dataset(train, dtype), None if val is None else as_dataset(val, dtype)
    plans = []
    for number, member in enumerate(members(net), 1):
        own = settings.model_copy(update={"seed": member_seed(settings.seed, number)})
        plans.append(plan(member, train, val, own, likelihood=copy.deepcopy(likelihood)))
    if plans[0].subject.deterministic:
        raise UsageError(
            f"the {plans[0].subject.likelihood.kind} likelihood has parameters that an optimiser trains: members would "
            "not share them, and an ensemble has one likelihood; give one without"
        )
    return replace(plans[0], members=tuple(plans))


def as_dataset(data: Data, dtype: torch.dtype) -> Dataset:
    """`data` itself, or made of a pair (x, y), whose real numbers then get the network's `dtype`."""
    if isinstance(data, Dataset):
        return data
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise DataError(
            f"training data are a posterity.Dataset or a pair (x, y) of arrays, not a {type(data).__name__}; "
            "data are kept in memory as tensors, so that no loader is needed"
        )
    return Dataset.from_arrays(*data).to(dtype)


def default_likelihood(data: Dataset, noise: float | str = "learnt") -> Likelihood:
    """The usual likelihood for the data's task, a regression's with this `noise`."""
    if data.task == "classification":
        return Categorical()
    if data.task == "binary":
        return Bernoulli()
    return GaussianNoise(noise, num_targets=data.num_outputs)


def check_fit(net: BayesianModule, likelihood: Likelihood, data: Dataset) -> None:
    """Refuse data that does not fit the network, by two of its rows."""
    weights = net.posterior.mean.detach()
    if data.x.is_floating_point() and data.x.dtype != weights.dtype:
        raise DataError(f"the inputs are {data.x.dtype}, the network's weights {weights.dtype}; convert one")
    try:
        output = net.trial(data.x[:2])
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the network cannot take inputs of shape {data.input_shape}: {reason}") from error
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


def _check_alike(train: Dataset, val: Dataset) -> None:
    """Refuse validation data of another kind than what is trained on."""
    for what, ours, theirs in (
        ("the task", train.task, val.task),
        ("inputs of shape", tuple(train.x.shape[1:]), tuple(val.x.shape[1:])),
        ("inputs of type", train.x.dtype, val.x.dtype),
        ("targets of shape", tuple(train.y.shape[1:]), tuple(val.y.shape[1:])),
        ("classes:", train.num_classes, val.num_classes),
    ):
        if ours != theirs:
            raise DataError(f"the validation data have {what} {theirs}, what is trained on {ours}; they must agree")


def _refuse_idle(settings: Settings, *, averages: bool) -> None:
    """Refuse settings that mean nothing without another; a setting counts as given where it is not its default."""
    rule = isinstance(settings.temperature, str)
    average = "an average: give average 'swa', 'hwa' or 'samples', or leave it out"
    for name, used, why in (
        *((name, averages, average) for name in OF_AVERAGES),
        ("penalty_factor", settings.penalty, "a penalty: give one, or leave it out"),
        ("penalty_factors", settings.penalty, "a penalty: give one, or leave it out"),
        ("penalty_variance", settings.penalty, "a penalty: give one, or leave it out"),
        ("temperature_warmup_shape", settings.temperature_warmup, "a warm-up: give temperature_warmup, too"),
        ("tau", rule, f"a temperature by rule ({', '.join(TEMPERATURES)}), not with {settings.temperature}"),
    ):
        if not used and not settings.is_default(name):
            raise UsageError(f"{name} ({getattr(settings, name)!r}) goes with {why}")


def _prior(net: BayesianModule, settings: Settings) -> Prior:
    """The network's prior, or the one that a penalty stands for."""
    if settings.penalty is None:
        return net.prior
    if not _may_be_replaced(net):
        raise UsageError(
            f"penalty '{settings.penalty}' would replace the {net.prior.kind} prior that the network was given: make "
            "the network without a prior, or leave out the penalty"
        )
    rule = FromPenalty(
        settings.penalty, settings.penalty_factor, factors=settings.penalty_factors, variance=settings.penalty_variance
    )
    return rule.bind(net.layout, net.posterior.mean.detach())


def _may_be_replaced(net: BayesianModule) -> bool:
    """Whether the prior is that of no choice, or a penalty's, which an earlier training may have put there."""
    default = Gaussian().bind(net.layout, net.posterior.mean.detach())
    same_kind = type(net.prior) is type(default) and net.prior.options() == default.options()
    return isinstance(net.prior, FlatPenalty) or (same_kind and torch.allclose(net.prior.sd, default.sd))
