"""The plan of a training: everything that can be refused is refused here, and nothing is changed.

    plan(net, train, val, settings)  ->  Plan  ->  Training(net, plan)

The plan holds what the loop is built from (likelihood, prior, groups with their optimisers, temperature, average); the
loop checks no more. A refused `fit` leaves the network, the data and the disk as they were.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.data import Dataset, Feed, LoaderFeed, Standardisation
from posterity.data.augmentation import AUGMENTATIONS, check_augmentation
from posterity.data.feeds import checksum_of
from posterity.ensemble import member_seed, members
from posterity.estimators import SAMPLE
from posterity.likelihoods import Likelihood
from posterity.objectives import check_estimate, check_learnable
from posterity.objectives.balance import Balance
from posterity.objectives.estimate import kind_of
from posterity.objectives.tempering import AUTO_TAU, TEMPERATURES, Auto
from posterity.optim import check_schedule_options
from posterity.posteriors import Mixture
from posterity.priors import FlatPenalty, FromPenalty, Gaussian, Prior
from posterity.training.averaging import OF_AVERAGES, Averaging
from posterity.training.course import BalancedCourse, Course
from posterity.training.diagnostics import foreign_rate
from posterity.training.fitting_data import Data, as_feed, as_validation, check_alike, check_fit, default_likelihood
from posterity.training.groups import ParameterGroup
from posterity.training.methods import METHODS, Method, Subject
from posterity.training.methods.gradient import OPTIMIZER, SMALL_OPTIMIZER
from posterity.training.ranks import check_spreadable, current_ranks
from posterity.training.settings import Settings
from posterity.training.warming import Warming, is_small, warms

Temperature = Callable[[float], float]  # of the epochs done
Augmentation = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Plan:
    """What a training is built from. Its optimisers are over the network's own parameters."""

    settings: Settings
    subject: Subject
    feed: Feed
    val: Dataset | None
    method: Method
    groups: list[ParameterGroup]
    temperature: Temperature
    averaging: Averaging | None
    augment: Augmentation | None
    members: tuple[Plan, ...] = ()  # of an ensemble, whose members are trained each by itself; the rest is the first's

    @property
    def train(self) -> Dataset:
        """The data at hand: all that is trained on, or a sample of it."""
        return self.feed.at_hand

    def standardise(self, net: BayesianModule, scale: Standardisation | None) -> None:
        """Give the planned `net`, and each of an ensemble's members, the units of its data."""
        for each in (net, *(one.subject.net for one in self.members)):
            each.standardisation = scale

    def course(self) -> Course:
        """The course of one training, from its start."""
        settings, subject = self.settings, self.subject
        rule = settings.temperature_rule
        auto = rule.settled
        if not (isinstance(auto, Auto) and subject.net.posterior.random) or self.method.brings_prior:
            return Course(self.temperature)
        if subject.small:
            return Warming(settings.length, subject.net.num_weights / subject.num_data)
        balance = Balance(subject.num_data, self.temperature(math.inf), auto.tau / AUTO_TAU)
        return BalancedCourse(balance, rule, settings.length)

    @cached_property
    def data_checksum(self) -> int:
        """CRC-32 of all that is trained and validated on; of what a loader brings, of its size and types."""
        return self.feed.checksum if self.val is None else checksum_of(self.val, self.feed.checksum)


def plan(
    net: BayesianModule,
    train: Data,
    val: Data | None,
    settings: Settings,
    *,
    likelihood: Likelihood | None = None,
    num_data: int | None = None,
) -> Plan:
    """How `net` is trained on `train` with these settings, or the reason why it cannot be.

    `num_data` is the number of rows of a stream, which cannot be seen from it.
    In this order, as each relies on those before it: data, family, settings without effect, prior, gradient, method.
    """
    if not isinstance(net, BayesianModule):
        raise UsageError(f"fit trains a Bayesian network; make one with bayesian({type(net).__name__}(...))")
    if isinstance(net.posterior, Mixture):
        return _plan_members(net, train, val, settings, likelihood, num_data)
    given = likelihood or net.likelihood
    feed = as_feed(train, net, settings, likelihood=given, num_data=num_data)
    at_hand, val = feed.at_hand, as_validation(val, net, feed, likelihood=given)
    if settings.patience and val is None:
        raise UsageError("patience needs validation data: give some, or a val_fraction above 0")
    likelihood = given or default_likelihood(at_hand).to(net.posterior.mean)
    check_fit(net, likelihood, at_hand)
    if val is not None:
        check_alike(at_hand, val)
        likelihood.check_targets(val.y)
    if settings.augmentation is not None:
        check_augmentation(settings.augmentation, at_hand.input_shape)
    if not net.posterior.trainable:
        raise UsageError(f"a posterior of the family '{net.posterior.kind}' has nothing to train")
    name = settings.optimizer or (SMALL_OPTIMIZER if is_small(net, likelihood) else OPTIMIZER)
    for warning in foreign_rate(settings, name):
        warnings.warn(warning, UserWarning, stacklevel=2)
    settings, method = settings.model_copy(update={"optimizer": name}), METHODS[name]
    averages = bool(settings.average or method.collects)
    _refuse_idle(settings, averages=averages)
    prior = _prior(net, settings)
    check_estimate(settings.estimator, settings.gradient, settings.baseline, settings.samples)
    if not net.posterior.random and settings.estimator != SAMPLE:
        raise UsageError(
            f"estimator ('{settings.estimator}') draws weights, of which a {net.posterior.kind} posterior has but one: "
            "leave it out"
        )
    kind_of(net.posterior, prior, settings.estimator, settings.gradient)
    if current_ranks() is not None:
        if isinstance(feed, LoaderFeed):
            raise UsageError(
                "processes need the same batches, of which a loader knows nothing: give its Dataset itself"
            )
        check_spreadable(net, estimator=settings.estimator, rank_noise=settings.rank_noise)
    if not net.posterior.has_kl(prior):
        raise UsageError(
            f"there is no KL from a {net.posterior.kind} posterior to a prior over groups of weights, which training "
            "records: take posterior 'mean_field', or a prior of independent weights"
        )
    if settings.learn_prior:
        check_learnable(net.posterior, prior)
    small = warms(net, likelihood, settings, feed.num_data * at_hand.y[:1].numel())
    epochs = settings.num_epochs(feed.num_data, feed.num_batches, small=small)
    settings = settings.model_copy(update={"epochs": epochs})
    subject = Subject(net, prior, likelihood, settings, feed.num_data, feed.batch_size, feed.num_batches, small)
    method.refuse(subject)
    if settings.schedule_options or settings.schedule_sd_options:
        for sd in (False, True):
            check_schedule_options(*settings.schedule_of(sd=sd))
    return Plan(
        settings,
        subject,
        feed,
        val,
        method,
        method.groups(subject),
        settings.temperature_rule.bind(net, feed.num_data),
        Averaging.of(net, settings, method, feed.num_batches),
        None if settings.augmentation is None else AUGMENTATIONS[settings.augmentation],
    )


def _plan_members(
    net: BayesianModule,
    train: Data,
    val: Data | None,
    settings: Settings,
    likelihood: Likelihood | None,
    num_data: int | None,
) -> Plan:
    """Each member's plan is that of the network by itself, but for its seed."""
    if settings.learn_prior:
        raise UsageError("learn_prior would give each member of an ensemble its own prior; they have one: leave it out")
    given = likelihood or net.likelihood
    feed = as_feed(train, net, settings, likelihood=given, num_data=num_data)
    val = as_validation(val, net, feed, likelihood=given)
    plans = []
    for number, member in enumerate(members(net), 1):
        own = settings.model_copy(update={"seed": member_seed(settings.seed, number)})
        plans.append(plan(member, feed, val, own, likelihood=copy.deepcopy(likelihood)))
    if plans[0].subject.deterministic:
        raise UsageError(
            f"the {plans[0].subject.likelihood.kind} likelihood has parameters that an optimiser trains: members would "
            "not share them, and an ensemble has one likelihood; give one without"
        )
    return replace(plans[0], members=tuple(plans))


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
