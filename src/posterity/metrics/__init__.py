"""Metrics: pure functions of predictions and targets, which know nothing of how either came about."""

from posterity.metrics.calibration import Reliability, adaptive_ece, ece, reliability
from posterity.metrics.classification import accuracy, brier, confidence, entropy, expected_nll, nll
from posterity.metrics.ood import aupr, auroc, fpr_at_tpr
from posterity.metrics.regression import (
    coverage,
    crps_gaussian,
    expected_log_likelihood,
    gaussian_log_likelihood,
    rmse,
)
from posterity.metrics.scores import CLASSIFICATION, REGRESSION, Metric, Predicted, brief_score, score
from posterity.metrics.selective import aurc, risk_coverage

__all__ = [
    "CLASSIFICATION",
    "REGRESSION",
    "Metric",
    "Predicted",
    "Reliability",
    "accuracy",
    "adaptive_ece",
    "aupr",
    "aurc",
    "auroc",
    "brief_score",
    "brier",
    "confidence",
    "coverage",
    "crps_gaussian",
    "ece",
    "entropy",
    "expected_log_likelihood",
    "expected_nll",
    "fpr_at_tpr",
    "gaussian_log_likelihood",
    "nll",
    "reliability",
    "risk_coverage",
    "rmse",
    "score",
]
