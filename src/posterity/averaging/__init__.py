"""Averages of a training's iterates, each a posterior like any other."""

from posterity.averaging.batch_norm import reestimate_batch_norm
from posterity.averaging.collected import Collected
from posterity.averaging.hwa import COVARIANCES, HWA
from posterity.averaging.running import RunningMean, RunningMoments
from posterity.averaging.swa import SWA

AVERAGES: dict[str, type[SWA]] = {average.kind: average for average in (SWA, HWA, Collected)}

__all__ = [
    "AVERAGES",
    "COVARIANCES",
    "HWA",
    "SWA",
    "Collected",
    "RunningMean",
    "RunningMoments",
    "reestimate_batch_norm",
]
