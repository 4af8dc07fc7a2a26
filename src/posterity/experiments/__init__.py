"""What a run is, how it is executed, how it is read back; studies beside it."""

from posterity.experiments.demo import demo_runs
from posterity.experiments.evaluate import NOISE, Evaluation, evaluate
from posterity.experiments.execute import accompany, evaluate_run, execute
from posterity.experiments.predictions import write_predictions
from posterity.experiments.record import Record
from posterity.experiments.results import Results
from posterity.experiments.row import Row
from posterity.experiments.run import Run
from posterity.experiments.trained import Trained, load_run, module_named

__all__ = [
    "NOISE",
    "Evaluation",
    "Record",
    "Results",
    "Row",
    "Run",
    "Trained",
    "accompany",
    "demo_runs",
    "evaluate",
    "evaluate_run",
    "execute",
    "load_run",
    "module_named",
    "write_predictions",
]
