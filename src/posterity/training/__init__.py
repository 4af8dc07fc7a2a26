"""The training loop and what surrounds it."""

from posterity.training.callbacks import Callback
from posterity.training.carry_out import CHECKPOINT_SECONDS, FitResult, carry_out
from posterity.training.fit import TrainingWarning, fit
from posterity.training.loop import Training
from posterity.training.plan import Plan, plan
from posterity.training.range_test import RangeTest, range_test
from posterity.training.ranks import LostError, Ranks, current_ranks, process_group
from posterity.training.resumption import ProlongedWarning
from posterity.training.settings import Settings
from posterity.training.signals import Interrupted

__all__ = [
    "CHECKPOINT_SECONDS",
    "Callback",
    "FitResult",
    "Interrupted",
    "LostError",
    "Plan",
    "ProlongedWarning",
    "RangeTest",
    "Ranks",
    "Settings",
    "Training",
    "TrainingWarning",
    "carry_out",
    "current_ranks",
    "fit",
    "plan",
    "process_group",
    "range_test",
]
