"""A prediction against the truth, in the metrics of its task."""

from __future__ import annotations

from torch import Tensor

from posterity import metrics
from posterity.data import Dataset
from posterity.likelihoods import ClassPrediction, Prediction, RealPrediction


def score(prediction: Prediction, data: Dataset) -> dict[str, float]:
    """All metrics of the task, by name."""
    if isinstance(prediction, RealPrediction):
        return _score_regression(prediction, data.y)
    assert isinstance(prediction, ClassPrediction)
    return _score_classes(prediction, data.y.long())


def brief_score(prediction: Prediction, data: Dataset) -> dict[str, float]:
    """The two that training watches: nll, and accuracy or rmse."""
    if isinstance(prediction, RealPrediction):
        assert prediction.samples is not None
        assert prediction.noise_sd is not None
        log_likelihood = metrics.gaussian_log_likelihood(prediction.samples, prediction.noise_sd.square(), data.y)
        return {"nll": -log_likelihood, "rmse": metrics.rmse(prediction.mean, data.y)}
    labels = data.y.long()
    return {
        "nll": metrics.nll(prediction.mean, labels),
        "accuracy": metrics.accuracy(prediction.mean, labels),
    }


def _score_classes(prediction: ClassPrediction, y: Tensor) -> dict[str, float]:
    probs = prediction.mean
    return {
        "accuracy": metrics.accuracy(probs, y),
        "nll": metrics.nll(probs, y),
        "expected_nll": -prediction.expected_log_prob(y).double().mean().item(),
        "ece": metrics.ece(probs, y),
        "brier": metrics.brier(probs, y),
        "confidence": metrics.confidence(probs),
        "entropy": metrics.entropy(probs).mean().item(),
        "aleatoric": prediction.aleatoric.mean().item(),
        "epistemic": prediction.epistemic.mean().item(),
    }


def _score_regression(prediction: RealPrediction, y: Tensor) -> dict[str, float]:
    # In the targets' own units only double precision has room for squares.
    aleatoric, epistemic, total = (
        sd.double().square() for sd in (prediction.aleatoric_sd, prediction.epistemic_sd, prediction.sd)
    )
    return {
        "rmse": metrics.rmse(prediction.mean, y),
        "log_likelihood": prediction.log_prob(y).double().mean().item(),
        "expected_log_likelihood": prediction.expected_log_prob(y).double().mean().item(),
        "crps": metrics.crps_gaussian(prediction.mean, total, y),
        "coverage_95": metrics.coverage(prediction.mean, total, y),
        "aleatoric": aleatoric.mean().item(),
        "epistemic": epistemic.mean().item(),
    }
