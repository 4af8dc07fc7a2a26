"""What a run's folder holds beside history and checkpoints, whether `fit` or a command made it.

config.toml     of a run from Python the settings alone: its data and its network are the program's, named PYTHON
checkpoint      with notes of what inputs and outputs mean, from which the network can be used again
summary.json    how the training ended
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
import torch

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.data import Standardisation
from posterity.storage import write_text
from posterity.training.carry_out import FitResult
from posterity.training.plan import Plan
from posterity.training.settings import Settings

PYTHON = "(python)"  # a network or data that a program has made
NOTHING = "(none)"  # stands for None in a file: TOML has nothing for it


def write_python_run(path: Path, settings: Settings) -> None:
    """The config of a run from Python."""
    values = {name: NOTHING if value is None else value for name, value in settings.as_dict().items()}
    write_text(path, tomli_w.dumps({"dataset": PYTHON, "model": PYTHON, **values}))


def loading_notes(net: BayesianModule, planned: Plan) -> dict[str, Any]:
    """What is needed, beside weights and module, to use the network again: plain values and tensors."""
    train = planned.train
    several = inputs.several(train.x)
    scale = net.standardisation or (None if several else Standardisation.identity(train))
    model = type(net.model)
    return {
        "standardisation": None if scale is None else scale.state(),
        "input_shape": None if several else list(train.input_shape),
        "num_outputs": planned.subject.likelihood.num_outputs(train.num_outputs),
        "task": train.task,
        "num_classes": train.num_classes,
        "columns": [] if train.columns is None else train.columns.as_dict(),  # so that predictions find them by name
        "classes": list(train.classes),
        "module": f"{model.__module__}:{model.__qualname__}",
    }


def summary_of(result: FitResult, planned: Plan) -> dict[str, Any]:
    """How a training went, for summary.json."""
    return {
        "stopped": result.stopped,
        "best_epoch": result.best_epoch,
        "num_weights": result.net.num_weights,
        "num_data": planned.subject.num_data,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "last": result.history[-1],
        "ending": dict(result.ending),
    }
