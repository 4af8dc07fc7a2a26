"""Optimisers and schedules; they know nothing of Bayes."""

from posterity.optim.adabayes import AdaBayes, AdaBayesFP
from posterity.optim.adabound import AdaBound, AMSBound
from posterity.optim.build import (
    OPTIMIZERS,
    SD_RATE,
    Recipe,
    build_optimizer,
    check_optimizer_options,
    construct,
    optimizer_options,
    spelled_out,
)
from posterity.optim.ivon import IVON
from posterity.optim.muon import Muon
from posterity.optim.rates import effective_rates
from posterity.optim.regions import fit_stable_rate, robust_rates, stable_rate
from posterity.optim.schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    Schedule,
    Step,
    build_schedule,
    check_schedule_options,
)
from posterity.optim.sgld import SGLD, SampleCollector
from posterity.optim.yellowfin import YellowFin

__all__ = [
    "IVON",
    "OPTIMIZERS",
    "SCHEDULES",
    "SD_RATE",
    "SGLD",
    "AMSBound",
    "AdaBayes",
    "AdaBayesFP",
    "AdaBound",
    "Constant",
    "Cosine",
    "Muon",
    "Recipe",
    "SampleCollector",
    "Schedule",
    "Step",
    "YellowFin",
    "build_optimizer",
    "build_schedule",
    "check_optimizer_options",
    "check_schedule_options",
    "construct",
    "effective_rates",
    "fit_stable_rate",
    "optimizer_options",
    "robust_rates",
    "spelled_out",
    "stable_rate",
]
