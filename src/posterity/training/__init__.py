"""The training loop and what surrounds it."""

from posterity.training.callbacks import Callback
from posterity.training.checkpoint import Checkpoints, CheckpointWarning
from posterity.training.directory import RunDirectory
from posterity.training.fit import FitResult, fit
from posterity.training.history import History
from posterity.training.loop import Training
from posterity.training.range_test import RangeTest, range_test
from posterity.training.settings import Settings
from posterity.training.signals import Interrupted

__all__ = [
    "Callback",
    "CheckpointWarning",
    "Checkpoints",
    "FitResult",
    "History",
    "Interrupted",
    "RangeTest",
    "RunDirectory",
    "Settings",
    "Training",
    "fit",
    "range_test",
]
