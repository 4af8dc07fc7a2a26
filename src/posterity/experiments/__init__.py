"""Runs as records: build, train, load, evaluate, compare."""

from posterity.experiments.demo import demo_runs
from posterity.experiments.evaluate import Evaluation, evaluate, predict_inputs
from posterity.experiments.files import write_predictions
from posterity.experiments.run import Run
from posterity.experiments.train import TrainedRun, load_run, train_run, write_summary

__all__ = [
    "Evaluation",
    "Run",
    "TrainedRun",
    "demo_runs",
    "evaluate",
    "load_run",
    "predict_inputs",
    "train_run",
    "write_predictions",
    "write_summary",
]
