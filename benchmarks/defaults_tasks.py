"""The tasks on which defaults are judged, and how every method is scored on them.

A problem is a task's data for one seed (of a UCI set: one standard split), in standardised units, the same for all
methods. A method gives a predictive at standardised inputs. Scores of a regression are in the targets' own units:

    accuracy, nll, ece (15 bins)                     or   rmse, log_likelihood, coverage of the central 90 % interval
    auroc_noise   entropy, inputs N(0, 1)            or   total sd, inputs N(0, 3^2), both standardised
    auroc_other   entropy, another set's test images
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity import data, metrics
from posterity.core.errors import NonFiniteError
from posterity.core.randomness import generator
from posterity.data import Dataset, Standardisation
from posterity.experiments import Run
from posterity.experiments.build import build_data, load_test
from posterity.likelihoods import Prediction
from posterity.models import MODELS

BATCH = 100
SAMPLES = 32  # weight samples at test
BINS = 15
LEVEL = 0.9
NOISE_SD = {"classification": 1.0, "regression": 3.0}

Predict = Callable[[Tensor], Prediction]


@dataclass(frozen=True)
class Task:
    """A data set, a network and a budget; `weight` is what a step costs beside the smallest network's."""

    name: str
    dataset: str
    model: str
    epochs: int
    hidden: tuple[int, ...] | None = None
    weight: float = 1.0
    seeds: int = 3  # by default; of a UCI set: standard splits
    trial_epochs: int | None = None  # of the trials of rates; None: all
    outside: int | None = None  # rows of noise and of other data; None: as many as there are
    train_rows: int | None = None  # None: all
    test_rows: int | None = None
    timed_rows: int = 1000  # of the test set, whose prediction is timed

    @property
    def splits(self) -> bool:
        """Whether a seed stands for a standard split."""
        return self.dataset.startswith("uci-")

    @property
    def kind(self) -> str:
        """Classification or regression."""
        return next(each.task or "" for each in data.describe() if each.name == self.dataset)

    @property
    def lacks(self) -> str:
        """Why it is left out; empty if it is not."""
        return "" if self.model in MODELS else f"this version of posterity has no model {self.model}"

    @property
    def network(self) -> str:
        """Its name and the widths of its hidden layers."""
        return " ".join(map(str, (self.model, *(self.hidden or ()))))

    @property
    def images(self) -> bool:
        """Whether its inputs are images."""
        return self.dataset in OTHERS

    def run(self, seed: int, epochs: int, **more: Any) -> Run:
        """What `ours` is told, and nothing else; an ensemble of ours also `more`."""
        return Run.of(
            dataset=self.dataset,
            model=self.model,
            hidden=self.hidden,
            epochs=epochs,
            val_fraction=0.0,
            seed=seed,
            split=seed if self.splits else 0,
            train_rows=self.train_rows,
            test_rows=self.test_rows,
            **more,
        )


def _digits_like(x: Tensor) -> Tensor:
    """28 x 28 pixels of 0..255 as 8 x 8 of 0..16."""
    return F.adaptive_avg_pool2d(x, 8) * (16 / 255)


def _cifar_like(x: Tensor) -> Tensor:
    """28 x 28 grey pixels as 32 x 32 in colour, with a black frame."""
    return F.pad(x, (2, 2, 2, 2)).expand(-1, 3, -1, -1)


# By data set: the images that it must not take for its own, and how they are made to fit.
OTHERS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "digits": ("mnist", _digits_like),
    "mnist": ("fashion-mnist", lambda x: x),
    "fashion-mnist": ("mnist", lambda x: x),
    "cifar10": ("fashion-mnist", _cifar_like),
}


def _uci(name: str, epochs: int) -> Task:
    return Task(f"uci-{name}", f"uci-{name}", "mlp", epochs, (50,), seeds=5)


# From small to large; the first three for 6000 steps, as long as small data are trained on by default at the least.
ALL = [
    Task("gap", "gap", "mlp", 6000, (50,)),
    Task("two-moons", "two-moons", "mlp", 1500, (50, 50), weight=1.3),
    Task("diabetes", "diabetes", "mlp", 1500, (50,)),
    Task("digits-mlp", "digits", "mlp", 40, (100, 100), weight=1.5),
    Task("digits-lenet5", "digits", "lenet5", 40, weight=3),
    _uci("boston", 400),
    _uci("energy", 400),
    _uci("concrete", 400),
    _uci("wine", 400),
    _uci("power", 100),
    _uci("protein", 40),
    Task("mnist-lenet5", "mnist", "lenet5", 8, weight=8),
    Task("fashion-lenet5", "fashion-mnist", "lenet5", 8, weight=8),
    Task("mnist-mlp", "mnist", "mlp", 8, (400, 400), weight=9),
    Task("cifar10-lenet5", "cifar10", "lenet5", 12, weight=10),
]
# Of quality.py alone, and short: an epoch of all images takes a plain network five minutes on a core.
MORE = [
    Task(
        "cifar10-resnet20",
        "cifar10",
        "resnet20",
        4,
        weight=100,
        seeds=1,
        trial_epochs=1,
        outside=500,
        train_rows=5000,
        test_rows=1000,
        timed_rows=100,
    )
]
TASKS = {task.name: task for task in (*ALL, *MORE)}


@dataclass(frozen=True)
class Problem:
    """A task's data for one seed: standardised, but for the test targets."""

    train: Dataset
    standardisation: Standardisation
    x: Tensor
    y: Tensor
    noise: Tensor
    other: Tensor | None

    @property
    def regression(self) -> bool:
        return self.train.task == "regression"


@lru_cache(maxsize=2)
def problem(task: Task, seed: int) -> Problem:
    """The data of `task` for `seed`."""
    run = task.run(seed, task.epochs)
    parts, test = build_data(run), load_test(run)
    scale = parts.standardisation
    shape = (len(test.x[: task.outside]), *test.x.shape[1:])
    noise = NOISE_SD[parts.train.task] * torch.randn(shape, generator=generator(seed, "noise"))
    other = None
    if task.dataset in OTHERS:
        name, fitted = OTHERS[task.dataset]
        other = scale.inputs(fitted(data.load_test(name).x[: task.outside]))
    return Problem(parts.train, scale, scale.inputs(test.x), test.y, noise, other)


def score(at: Problem, predict: Predict) -> dict[str, float]:
    """All columns of a method whose predictive at standardised inputs is `predict`."""
    inside, outside = predict(at.x), {"noise": predict(at.noise)}
    if at.other is not None:
        outside["other"] = predict(at.other)
    if not all(p.mean.isfinite().all() for p in (inside, *outside.values())):
        raise NonFiniteError("the predictions are not finite: the training has diverged")
    found = _real_scores(at, inside) if at.regression else _class_scores(inside.mean, at.y.long())
    doubt = _doubt(inside)
    return found | {f"auroc_{name}": metrics.auroc(doubt, _doubt(p)) for name, p in outside.items()}


def _class_scores(probs: Tensor, y: Tensor) -> dict[str, float]:
    return {
        "accuracy": metrics.accuracy(probs, y),
        "nll": metrics.nll(probs, y),
        "ece": metrics.ece(probs, y, BINS),
        "brier": metrics.brier(probs, y),
    }


def _real_scores(at: Problem, standardised: Prediction) -> dict[str, float]:
    prediction = standardised.rescaled(at.standardisation.y_mean, at.standardisation.y_sd)
    low, high = prediction.interval(LEVEL)
    return {
        "rmse": metrics.rmse(prediction.mean, at.y),
        "log_likelihood": prediction.log_prob(at.y).double().mean().item(),
        "coverage": ((low <= at.y) & (at.y <= high)).double().mean().item(),
        "sd": prediction.sd.double().mean().item(),
    }


def _doubt(prediction: Prediction) -> Tensor:
    """(n,): entropy of classes, total sd of the (one) real target."""
    return metrics.entropy(prediction.mean) if prediction.kind == "classes" else prediction.sd.squeeze(-1)
