"""Evaluate a trained run: on its test data, on noise, on data from elsewhere.

Metrics of a regression are in the targets' own units: with y = y_mean + y_sd z,
    rmse_y = y_sd rmse_z,     log_likelihood_y = log_likelihood_z - log y_sd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posterity import data, metrics
from posterity.core.errors import DataError, UsageError, unknown_name
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.experiments.build import at_most, load_test
from posterity.experiments.trained import Trained
from posterity.likelihoods import Prediction
from posterity.prediction import DEFAULT_SAMPLES

NOISE = "noise"


@dataclass(frozen=True)
class Evaluation:
    """A network on the test data and on data from elsewhere: numbers for a table, predictions for figures."""

    test: dict[str, float]
    prediction: Prediction
    targets: Tensor
    shifted: dict[str, dict[str, float]] = field(default_factory=dict)
    shifted_predictions: dict[str, Prediction] = field(default_factory=dict)
    by_class: dict[str, dict[str, float]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The numbers."""
        more = {"ood": self.shifted, "by_class": self.by_class}
        return {"test": self.test, **{name: numbers for name, numbers in more.items() if numbers}}


def evaluate(
    trained: Trained,
    *,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    ood: Sequence[str] = (),
    test: Dataset | None = None,
) -> dict[str, Evaluation]:
    """The run's networks, `last` and perhaps `average`, on its test data (or `test`, raw) and on each of `ood`."""
    if ood and trained.task == "regression":
        raise UsageError("out-of-distribution detection is for classification")
    test = load_test(trained.run) if test is None else test
    inputs = {name: _shifted_inputs(trained, name, test, seed) for name in ood}
    return {name: _evaluate(one, test, inputs, samples, seed) for name, one in trained.networks().items()}


def _evaluate(trained: Trained, test: Dataset, inputs: dict[str, Tensor], samples: int, seed: int) -> Evaluation:
    prediction = trained.predict(test.x, samples, seed=seed)
    elsewhere = {name: trained.predict(x, samples, seed=seed) for name, x in inputs.items()}
    shifted = {name: _detect(prediction, other) for name, other in elsewhere.items()}
    scores, named = metrics.score(prediction, test.y, test.task), _by_class(prediction, test.y, trained.classes)
    return Evaluation(scores, prediction, test.y, shifted, elsewhere, named)


def _by_class(prediction: Prediction, y: Tensor, classes: Sequence[str]) -> dict[str, dict[str, float]]:
    """By the name of each class, if they have names: its rows, how many are found, and how sure the network is."""
    found = {}
    for number, name in enumerate(classes):
        own = y == number
        if own.any():
            right = (prediction.label[own] == number).double().mean().item()
            found[name] = {
                "rows": int(own.sum()), "accuracy": right, "confidence": prediction.confidence[own].mean().item()
            }  # fmt: skip
    return found


def _shifted_inputs(trained: Trained, name: str, test: Dataset, seed: int) -> Tensor:
    if name == NOISE:
        # Gaussian noise in the standardised space, so that it has the data's own mean and spread.
        scale = trained.standardisation
        noise = torch.randn(test.x.shape, generator=generator(seed, NOISE))
        return noise * scale.x_sd + scale.x_mean
    if name not in data.names():
        raise unknown_name("data set", name, [*data.names(), NOISE])
    other = at_most(data.load_test(name), trained.run.test_rows)
    if other.input_shape != trained.input_shape:
        raise DataError(f"{name} has inputs {other.input_shape}, the network takes {trained.input_shape}")
    inputs: Tensor = other.x
    return inputs


def _detect(inside: Prediction, outside: Prediction) -> dict[str, float]:
    result = {"confidence": outside.confidence.mean().item(), "entropy": outside.total.mean().item()}
    for label, name in (("entropy", "total"), ("epistemic", "epistemic")):
        scores = getattr(inside, name), getattr(outside, name)
        result[f"auroc_{label}"] = metrics.auroc(*scores)
        result[f"aupr_{label}"] = metrics.aupr(*scores)
        result[f"fpr95_{label}"] = metrics.fpr_at_tpr(*scores)
    return result
