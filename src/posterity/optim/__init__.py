"""Optimisers and schedules; they know nothing of Bayes."""

from posterity.optim.build import OPTIMIZERS, Recipe, build_optimizer
from posterity.optim.schedules import SCHEDULES, Constant, Cosine, Schedule, Step, build_schedule

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "Constant",
    "Cosine",
    "Recipe",
    "Schedule",
    "Step",
    "build_optimizer",
    "build_schedule",
]
