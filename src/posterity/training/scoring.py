"""A prediction against the truth, in the metrics of its task."""

from __future__ import annotations

import torch
from torch import Tensor

from posterity import metrics
from posterity.data import Dataset
from posterity.likelihoods import Prediction


def score(prediction: Prediction, data: Dataset) -> dict[str, float]:
    """All metrics of the task, by name."""
    if data.task == "regression":
        return _score_regression(prediction, data.y)
    return _score_classes(prediction, data.y.long())


def brief_score(prediction: Prediction, data: Dataset) -> dict[str, float]:
    """The two that training watches: nll, and accuracy or rmse."""
    if data.task == "regression":
        assert prediction.noise is not None
        log_likelihood = metrics.gaussian_log_likelihood(prediction.samples, prediction.noise, data.y)
        return {"nll": -log_likelihood, "rmse": metrics.rmse(prediction.mean, data.y)}
    labels = data.y.long()
    return {
        "nll": metrics.nll(prediction.mean, labels),
        "accuracy": metrics.accuracy(prediction.mean, labels),
    }


def _score_classes(prediction: Prediction, y: Tensor) -> dict[str, float]:
    probs = prediction.mean
    log_probs = prediction.samples.clamp_min(torch.finfo(probs.dtype).tiny).log()
    return {
        "accuracy": metrics.accuracy(probs, y),
        "nll": metrics.nll(probs, y),
        "expected_nll": metrics.expected_nll(log_probs, y),
        "ece": metrics.ece(probs, y),
        "brier": metrics.brier(probs, y),
        "confidence": metrics.confidence(probs),
        "entropy": metrics.entropy(probs).mean().item(),
        "aleatoric": prediction.aleatoric.mean().item(),
        "epistemic": prediction.epistemic.mean().item(),
    }


def _score_regression(prediction: Prediction, y: Tensor) -> dict[str, float]:
    assert prediction.noise is not None
    return {
        "rmse": metrics.rmse(prediction.mean, y),
        "log_likelihood": metrics.gaussian_log_likelihood(prediction.samples, prediction.noise, y),
        "expected_log_likelihood": metrics.expected_log_likelihood(prediction.samples, prediction.noise, y),
        "crps": metrics.crps_gaussian(prediction.mean, prediction.total, y),
        "coverage_95": metrics.coverage(prediction.mean, prediction.total, y),
        "aleatoric": prediction.aleatoric.mean().item(),
        "epistemic": prediction.epistemic.mean().item(),
    }
