"""Evaluate a trained run: on its test data, on noise, on data from elsewhere; predict for new inputs.

Metrics of a regression are in the targets' own units: with y = y_mean + y_sd z,
    rmse_y = y_sd rmse_z,     log_likelihood_y = log_likelihood_z - log y_sd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posterity import data, metrics
from posterity.core.errors import DataError, UsageError, unknown_name
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.experiments.train import TrainedRun
from posterity.likelihoods import Prediction
from posterity.prediction import DEFAULT_SAMPLES
from posterity.training.scoring import score

NOISE = "noise"


@dataclass(frozen=True)
class Evaluation:
    """Numbers for a table, and the predictions that figures are drawn from."""

    test: dict[str, float]
    shifted: dict[str, dict[str, float]]
    prediction: Prediction
    targets: Tensor
    shifted_confidence: dict[str, Tensor]
    average: Evaluation | None = None

    def as_dict(self) -> dict[str, Any]:
        """The numbers."""
        average = {"average": self.average.as_dict()} if self.average else {}
        return {"test": self.test, **({"ood": self.shifted} if self.shifted else {}), **average}

    def columns(self) -> dict[str, dict[str, float]]:
        """The same as columns of a table: the test data, data from elsewhere; the average's beside the last's."""
        if self.average is None:
            return {"test": self.test, **self.shifted}
        found: dict[str, dict[str, float]] = {}
        for name, evaluation in {"last": self, "average": self.average}.items():
            found |= {name: evaluation.test, **{f"{name}, {k}": v for k, v in evaluation.shifted.items()}}
        return found

    def networks(self, name: str) -> dict[str, Evaluation]:
        """Itself as `name`, and its average beside it."""
        return {name: self, **({f"{name}, average": self.average} if self.average else {})}


def predict_inputs(trained: TrainedRun, x: Tensor, *, samples: int, seed: int) -> Prediction:
    """The predictive at raw inputs `x`, in the targets' own units."""
    if tuple(x.shape[1:]) != trained.input_shape:
        raise DataError(f"the inputs have shape {tuple(x.shape[1:])}; the network was trained on {trained.input_shape}")
    prediction = trained.net.predict(trained.standardisation.inputs(x), samples, seed=seed)
    if trained.task != "regression":
        return prediction
    return prediction.rescaled(trained.standardisation.y_mean, trained.standardisation.y_sd)


def evaluate(
    trained: TrainedRun,
    *,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    ood: Sequence[str] = (),
    test: Dataset | None = None,
) -> Evaluation:
    """Metrics on the run's test data (or `test`, raw), and uncertainty on each data set of `ood`.

    Where the run has an average of its iterates, that is evaluated in the same way.
    """
    run = trained.run
    if test is None:
        test = data.load_test(run.dataset, split=run.split, seed=run.seed, target=run.target, task=run.task)
    if ood and trained.task == "regression":
        raise UsageError("out-of-distribution detection is for classification")
    prediction = predict_inputs(trained, test.x, samples=samples, seed=seed)
    shifted, confidences = {}, {}
    for name in ood:
        other = _shifted_inputs(trained, name, test, seed)
        elsewhere = predict_inputs(trained, other, samples=samples, seed=seed)
        shifted[name] = _detect(prediction, elsewhere)
        confidences[name] = elsewhere.confidence
    average = None
    if trained.averaged is not None:
        average = evaluate(trained.average(), samples=samples, seed=seed, ood=ood, test=test)
    return Evaluation(score(prediction, test), shifted, prediction, test.y, confidences, average)


def _shifted_inputs(trained: TrainedRun, name: str, test: Dataset, seed: int) -> Tensor:
    if name == NOISE:
        # Gaussian noise in the standardised space, so that it has the data's own mean and spread.
        scale = trained.standardisation
        noise = torch.randn(test.x.shape, generator=generator(seed, NOISE))
        return noise * scale.x_sd + scale.x_mean
    if name not in data.names():
        raise unknown_name("data set", name, [*data.names(), NOISE])
    other = data.load_test(name)
    if other.input_shape != trained.input_shape:
        raise DataError(f"{name} has inputs {other.input_shape}, the network takes {trained.input_shape}")
    return other.x


def _detect(inside: Prediction, outside: Prediction) -> dict[str, float]:
    result = {"confidence": outside.confidence.mean().item(), "entropy": outside.total.mean().item()}
    for name in ("total", "epistemic"):
        scores = getattr(inside, name), getattr(outside, name)
        label = "entropy" if name == "total" else name
        result[f"auroc_{label}"] = metrics.auroc(*scores)
        result[f"aupr_{label}"] = metrics.aupr(*scores)
        result[f"fpr95_{label}"] = metrics.fpr_at_tpr(*scores)
    return result
