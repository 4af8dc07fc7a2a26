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
# What training watches, and stops by.
WATCHED_CLASSIFICATION: dict[str, Metric] = {name: CLASSIFICATION[name] for name in ("nll", "accuracy")}
WATCHED_REGRESSION: dict[str, Metric] = {
    "nll": lambda p, y: -REGRESSION["log_likelihood"](p, y),
    "rmse": REGRESSION["rmse"],
}


def score(prediction: Predicted, y: Tensor, task: str) -> dict[str, float]:
    """All metrics of the task, by name."""
    if task == "regression":
        return _walk(REGRESSION, prediction, y)
    return _walk(CLASSIFICATION, prediction, y.long())


def brief_score(prediction: Predicted, y: Tensor, task: str) -> dict[str, float]:
    """The two that training watches: nll, and accuracy or rmse."""
    if task == "regression":
        return _walk(WATCHED_REGRESSION, prediction, y)
    return _walk(WATCHED_CLASSIFICATION, prediction, y.long())


def _walk(table: dict[str, Metric], prediction: Predicted, y: Tensor) -> dict[str, float]:
    return {name: metric(prediction, y) for name, metric in table.items()}


def _variance(prediction: Any, sd: str) -> Tensor:
    """In double precision: in the targets' own units only that has room for squares."""
    values: Tensor = getattr(prediction, sd)
    return values.double().square()
