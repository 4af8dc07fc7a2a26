"""A prediction against the truth: the table of metrics of each task.

A metric is a function of a prediction and of targets y: labels (n,) of classes, values (n, k) of a regression. A new
one is a function in the file of its kind and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from posterity.metrics import calibration, classification, regression


class Predicted(Protocol):
    """What metrics look at: means (n, K), samples (S, n, K), uncertainties by source, their `total`."""

    @property
    def mean(self) -> Tensor:
        """Class probabilities, or means of the targets."""

    @property
    def samples(self) -> Tensor:
        """The same by weight sample."""

    @property
    def aleatoric(self) -> Tensor:
        """Of the data: in nats (n,), or variances (n, k)."""

    @property
    def epistemic(self) -> Tensor:
        """Of the weights: in nats (n,), or variances (n, k)."""

    @property
    def total(self) -> Tensor:
        """Their sum."""


Metric = Callable[[Predicted, Tensor], float]

CLASSIFICATION: dict[str, Metric] = {
    "accuracy": lambda p, y: classification.accuracy(p.mean, y),
    "nll": lambda p, y: classification.nll(p.mean, y),
    "expected_nll": lambda p, y: classification.expected_nll(_log_probabilities(p), y),
    "ece": lambda p, y: calibration.ece(p.mean, y),
    "brier": lambda p, y: classification.brier(p.mean, y),
    "confidence": lambda p, y: classification.confidence(p.mean),
    "entropy": lambda p, y: classification.entropy(p.mean).mean().item(),
    "aleatoric": lambda p, y: p.aleatoric.mean().item(),
    "epistemic": lambda p, y: p.epistemic.mean().item(),
}
REGRESSION: dict[str, Metric] = {
    "rmse": lambda p, y: regression.rmse(p.mean, y),
    "log_likelihood": lambda p, y: regression.gaussian_log_likelihood(p.samples, _noise_variance(p), y),
    "expected_log_likelihood": lambda p, y: regression.expected_log_likelihood(p.samples, _noise_variance(p), y),
    "crps": lambda p, y: regression.crps_gaussian(p.mean, p.total, y),
    "coverage_90": lambda p, y: regression.coverage(p.mean, p.total, y, 0.9),
    "coverage_95": lambda p, y: regression.coverage(p.mean, p.total, y, 0.95),
    "aleatoric": lambda p, y: p.aleatoric.mean().item(),
    "epistemic": lambda p, y: p.epistemic.mean().item(),
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


def _log_probabilities(prediction: Predicted) -> Tensor:
    return prediction.samples.clamp_min(torch.finfo(prediction.mean.dtype).tiny).log()


def _noise_variance(prediction: Any) -> Tensor:
    """By weight sample (S, n, k)."""
    sd: Tensor | None = getattr(prediction, "noise_sd", None)
    variance: Tensor = prediction.noise if sd is None else sd.square()
    return variance
