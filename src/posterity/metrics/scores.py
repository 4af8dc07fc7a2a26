"""A prediction against the truth: the table of metrics of each task.

A metric is a function of a prediction and of targets y: labels (n,) of classes, values (n, k) of a regression. A new
one is a function in the file of its kind and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from posterity.metrics import calibration, classification, regression


class Predicted(Protocol):
    """What metrics look at: means (n, K), uncertainties by source, and the log probability of targets."""

    @property
    def mean(self) -> Tensor:
        """Class probabilities, or means of the targets."""

    @property
    def aleatoric(self) -> Tensor:
        """Of the data: in nats (n,), or variances (n, k)."""

    @property
    def epistemic(self) -> Tensor:
        """Of the weights: in nats (n,), or variances (n, k)."""

    def log_prob(self, y: Tensor) -> Tensor:
        """Of the predictive at y, (n,)."""

    def expected_log_prob(self, y: Tensor) -> Tensor:
        """Mean over the weights of log P(y | w), (n,)."""


Metric = Callable[[Predicted, Tensor], float]

CLASSIFICATION: dict[str, Metric] = {
    "accuracy": lambda p, y: classification.accuracy(p.mean, y),
    "nll": lambda p, y: classification.nll(p.mean, y),
    "expected_nll": lambda p, y: -p.expected_log_prob(y).double().mean().item(),
    "ece": lambda p, y: calibration.ece(p.mean, y),
    "brier": lambda p, y: classification.brier(p.mean, y),
    "confidence": lambda p, y: classification.confidence(p.mean),
    "entropy": lambda p, y: classification.entropy(p.mean).mean().item(),
    "aleatoric": lambda p, y: p.aleatoric.mean().item(),
    "epistemic": lambda p, y: p.epistemic.mean().item(),
}
REGRESSION: dict[str, Metric] = {
    "rmse": lambda p, y: regression.rmse(p.mean, y),
    "log_likelihood": lambda p, y: p.log_prob(y).double().mean().item(),
    "expected_log_likelihood": lambda p, y: p.expected_log_prob(y).double().mean().item(),
    "crps": lambda p, y: regression.crps_gaussian(p.mean, _variance(p, "sd"), y),
    "coverage_90": lambda p, y: regression.coverage(p.mean, _variance(p, "sd"), y, 0.9),
    "coverage_95": lambda p, y: regression.coverage(p.mean, _variance(p, "sd"), y, 0.95),
    "aleatoric": lambda p, y: _variance(p, "aleatoric_sd").mean().item(),
    "epistemic": lambda p, y: _variance(p, "epistemic_sd").mean().item(),
}
STUDENT: dict[str, Metric] = {  # whose tails are not a Gaussian's
    **REGRESSION,
    "crps": lambda p, y: _crps(p, y),
    "coverage_90": lambda p, y: _central(p, y, 0.9),
    "coverage_95": lambda p, y: _central(p, y, 0.95),
}
COUNTS: dict[str, Metric] = {
    **{name: REGRESSION[name] for name in ("rmse", "log_likelihood", "expected_log_likelihood")},
    "coverage_90": lambda p, y: _within(p, y, 0.9),
    "coverage_95": lambda p, y: _within(p, y, 0.95),
    **{name: REGRESSION[name] for name in ("aleatoric", "epistemic")},
}
LABELS: dict[str, Metric] = {
    "accuracy": lambda p, y: ((p.mean > 0.5) == (y > 0.5)).double().mean().item(),
    "nll": lambda p, y: -p.log_prob(y).double().mean().item(),
    "expected_nll": CLASSIFICATION["expected_nll"],
    "brier": lambda p, y: (p.mean - y).double().square().mean().item(),
    **{name: CLASSIFICATION[name] for name in ("aleatoric", "epistemic")},
}
# What training watches, and stops by.
WATCHED_CLASSIFICATION: dict[str, Metric] = {name: CLASSIFICATION[name] for name in ("nll", "accuracy")}
WATCHED_REGRESSION: dict[str, Metric] = {
    "nll": lambda p, y: -REGRESSION["log_likelihood"](p, y),
    "rmse": REGRESSION["rmse"],
}
WATCHED_LABELS: dict[str, Metric] = {name: LABELS[name] for name in ("nll", "accuracy")}

# By kind of prediction: all, and what is watched.
TABLES: dict[str, tuple[dict[str, Metric], dict[str, Metric]]] = {
    "classification": (CLASSIFICATION, WATCHED_CLASSIFICATION),
    "regression": (REGRESSION, WATCHED_REGRESSION),
    "student": (STUDENT, WATCHED_REGRESSION),
    "counts": (COUNTS, WATCHED_REGRESSION),
    "labels": (LABELS, WATCHED_LABELS),
}


def score(prediction: Predicted, y: Tensor, task: str) -> dict[str, float]:
    """All metrics of the task, by name; of a prediction that says which they are, those."""
    return _walk(prediction, y, task, watched=False)


def brief_score(prediction: Predicted, y: Tensor, task: str) -> dict[str, float]:
    """The two that training watches: nll, and accuracy or rmse."""
    return _walk(prediction, y, task, watched=True)


def _walk(prediction: Predicted, y: Tensor, task: str, *, watched: bool) -> dict[str, float]:
    kind = getattr(prediction, "table", "regression" if task == "regression" else "classification")
    targets = y.long() if kind == "classification" else y
    if kind == "classification" and targets.dim() > 1:  # maps: a class at each place
        whole: Any = prediction
        prediction, targets = whole.places(), targets.flatten()
    return {name: metric(prediction, targets) for name, metric in TABLES[kind][watched].items()}


def _within(prediction: Any, y: Tensor, level: float) -> float:
    """The share of targets in the prediction's own interval."""
    low, high = prediction.interval(level)
    inside: Tensor = (low <= y) & (y <= high)
    return inside.double().mean().item()


def _central(prediction: Any, y: Tensor, level: float) -> float:
    """The same by the predictive's distribution function, without its inverse."""
    share: Tensor = prediction.cdf(y)
    return ((2 * share - 1).abs() <= level).double().mean().item()


def _crps(prediction: Any, y: Tensor) -> float:
    found: Tensor = prediction.crps(y)
    return found.mean().item()


def _variance(prediction: Any, sd: str) -> Tensor:
    """In double precision: in the targets' own units only that has room for squares."""
    values: Tensor = getattr(prediction, sd)
    return values.double().square()
