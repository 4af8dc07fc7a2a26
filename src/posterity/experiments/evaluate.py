"""Evaluate a trained run: on its test data, on noise, on data from elsewhere; predict for new inputs.

Metrics of a regression are in the targets' own units: with y = y_mean + y_sd z,
    rmse_y = y_sd rmse_z,     log_likelihood_y = log_likelihood_z - log y_sd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from posterity import data, metrics
from posterity.core.errors import DataError, UsageError, unknown_name
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.experiments.train import TrainedRun
from posterity.likelihoods import Prediction
from posterity.metrics import score

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
    return in_own_units(trained, prediction)


def in_own_units(trained: TrainedRun, prediction: Prediction) -> Prediction:
    """Undo the standardisation of regression targets."""
    if trained.task != "regression":
        return prediction
    mean, sd = trained.standardisation.y_mean, trained.standardisation.y_sd
    assert prediction.noise is not None
    return replace(
        prediction,
        mean=prediction.mean * sd + mean,
        samples=prediction.samples * sd + mean,
        aleatoric=prediction.aleatoric * sd.square(),
        epistemic=prediction.epistemic * sd.square(),
        noise=prediction.noise * sd.square(),
    )


def evaluate(
    trained: TrainedRun,
    *,
    samples: int = 32,
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
        assert elsewhere.confidence is not None
        confidences[name] = elsewhere.confidence
    average = None
    if trained.averaged is not None:
        average = evaluate(trained.average(), samples=samples, seed=seed, ood=ood, test=test)
    return Evaluation(score(prediction, test.y, test.task), shifted, prediction, test.y, confidences, average)


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
    assert outside.confidence is not None
    result = {"confidence": outside.confidence.mean().item(), "entropy": outside.total.mean().item()}
    for name in ("total", "epistemic"):
        scores = getattr(inside, name), getattr(outside, name)
        label = "entropy" if name == "total" else name
        result[f"auroc_{label}"] = metrics.auroc(*scores)
        result[f"aupr_{label}"] = metrics.aupr(*scores)
        result[f"fpr95_{label}"] = metrics.fpr_at_tpr(*scores)
    return result
