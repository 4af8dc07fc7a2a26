"""Refuse settings that would have no effect on a training, instead of passing over them.

A setting counts as given where it differs from its default. Runs that were begun before are resumed as they were.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from posterity.averaging import HWA, Collected
from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.estimators import SAMPLE
from posterity.objectives.estimate import PATH, TOTAL
from posterity.priors import FlatGaussian, FlatPenalty, Gaussian
from posterity.training.groups import SAMPLERS, SD
from posterity.training.settings import Settings

OF_AVERAGES = ("average_start", "average_every", "average_restart", "covariance", "average_rank")
OF_SDS = ("optimizer_sd", "lr_sd", "lr_ratio", "schedule_sd", "alternate")


def refuse_idle(net: BayesianModule, settings: Settings) -> None:
    """Refuse what is given in `settings` and means nothing for `net`, or beside the other settings."""
    if settings.penalty is None:
        _refuse(settings, ("penalty_factor",), "goes with a penalty: give one, or leave it out")
    elif not _may_be_replaced(net):
        raise UsageError(
            f"penalty '{settings.penalty}' would replace the {net.prior.kind} prior that the network was given: make "
            "the network without a prior, or leave out the penalty"
        )
    _refuse_for_average(settings)
    _refuse_for_posterior(net, settings)
    if settings.optimizer == "ivon" and settings.gradient in (PATH, TOTAL):
        raise UsageError(
            f"gradient ({settings.gradient!r}) has no effect with optimizer 'ivon', whose steps have the prior in "
            "them: leave it out"
        )


def _refuse_for_average(settings: Settings) -> None:
    kind = settings.averaging
    if kind is None:
        _refuse(settings, OF_AVERAGES, "goes with an average: give average 'swa', 'hwa' or 'samples', or leave it out")
    if kind == Collected.kind:
        _refuse(settings, ("average_restart",), "goes with average 'swa' or 'hwa': samples are kept as they are")
    if kind != HWA.kind:
        _refuse(settings, ("covariance", "average_rank"), f"goes with average 'hwa', not with '{kind}'")
    elif settings.covariance != "low_rank":
        _refuse(settings, ("average_rank",), f"goes with covariance 'low_rank', not with '{settings.covariance}'")


def _refuse_for_posterior(net: BayesianModule, settings: Settings) -> None:
    kind, whole = net.posterior.kind, settings.optimizer in SAMPLERS  # training.groups refuses OF_SDS for these
    if SD not in net.posterior.groups() or whole:
        owner = f"'{settings.optimizer}' does not train by themselves" if whole else f"a {kind} posterior does not have"
        why = f"is for standard deviations, which {owner}: leave it out"
        _refuse(settings, ("optimizer_sd_options",) if whole else (*OF_SDS, "optimizer_sd_options"), why)
        if any(settings.schedule_options.get(k) != v for k, v in settings.schedule_sd_options.items()):
            raise UsageError(f"schedule_sd_options ({settings.schedule_sd_options!r}) {why}")
    if not net.posterior.random and settings.estimator != SAMPLE:
        raise UsageError(
            f"estimator ('{settings.estimator}') draws weights, of which a {kind} posterior has but one: leave it out"
        )


def _refuse(settings: Settings, names: Iterable[str], why: str) -> None:
    default = Settings()
    for name in names:
        value = getattr(settings, name)
        if value != getattr(default, name):
            raise UsageError(f"{name} ({value!r}) {why}")


def _may_be_replaced(net: BayesianModule) -> bool:
    """Whether the prior is that of no choice, or a penalty's, which an earlier training may have put there."""
    if isinstance(net.prior, FlatPenalty):
        return True
    default = Gaussian().bind(net.layout, net.posterior.mean.detach())
    ours = net.prior
    return isinstance(ours, FlatGaussian) and ours.centre is None and torch.allclose(ours.precision, default.precision)
