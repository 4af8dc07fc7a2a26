"""The tables of metrics: each row by hand or by its function, on predictions that are mere tensors."""

import math
from types import SimpleNamespace

import pytest
import torch

from posterity import metrics
from posterity.metrics import CLASSIFICATION, REGRESSION, brief_score, score


def classes():
    samples = torch.tensor([[[0.8, 0.2], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]])
    uncertain = torch.tensor([0.1, 0.3])
    return SimpleNamespace(
        mean=samples.mean(0), samples=samples, aleatoric=uncertain, epistemic=uncertain / 2, total=1.5 * uncertain
    )


def values(**noise):
    samples = torch.tensor([[[0.4], [1.0]], [[0.6], [1.0]]])
    mean, aleatoric, epistemic = samples.mean(0), torch.full((2, 1), 0.04), samples.var(0, correction=0)
    return SimpleNamespace(
        mean=mean, samples=samples, aleatoric=aleatoric, epistemic=epistemic, total=aleatoric + epistemic, **noise
    )


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_classes_by_hand(task):
    found = score(classes(), torch.tensor([0, 0], dtype=torch.int32), task)
    assert list(found) == list(CLASSIFICATION)
    assert found["accuracy"] == 0.5
    assert found["nll"] == pytest.approx(-(math.log(0.7) + math.log(0.3)) / 2)
    assert found["expected_nll"] == pytest.approx(-sum(map(math.log, (0.8, 0.5, 0.6, 0.1))) / 4, rel=1e-5)
    assert found["ece"] == pytest.approx(0.7 - 0.5, rel=1e-5)  # both in one bin
    assert found["brier"] == pytest.approx(0.5 * (2 * 0.3**2) + 0.5 * (2 * 0.7**2), rel=1e-5)
    assert found["confidence"] == pytest.approx(0.7)
    assert found["entropy"] == pytest.approx(-0.7 * math.log(0.7) - 0.3 * math.log(0.3), rel=1e-5)
    assert (found["aleatoric"], found["epistemic"]) == pytest.approx((0.2, 0.1))
    assert brief_score(classes(), torch.tensor([0, 0]), task) == {"nll": found["nll"], "accuracy": 0.5}


def test_values_by_hand():
    noise, y = torch.full((2, 2, 1), 0.04), torch.tensor([[0.8], [1.1]])
    prediction = values(noise=noise)
    found = score(prediction, y, "regression")
    assert list(found) == list(REGRESSION)
    assert found["rmse"] == pytest.approx(math.sqrt((0.3**2 + 0.1**2) / 2))
    density = [[math.exp(-0.5 * (t - m) ** 2 / 0.04) for m in ms] for t, ms in ((0.8, (0.4, 0.6)), (1.1, (1.0, 1.0)))]
    constant = -0.5 * math.log(2 * math.pi * 0.04)
    assert found["log_likelihood"] == pytest.approx(constant + sum(math.log(sum(d) / 2) for d in density) / 2, rel=1e-5)
    expected = constant + sum(math.log(e) for d in density for e in d) / 4
    assert found["expected_log_likelihood"] == pytest.approx(expected, abs=1e-6)
    assert found["crps"] == metrics.crps_gaussian(prediction.mean, prediction.total, y)
    # |d| / sd is 0.3 / sqrt(0.05) = 1.34 and 0.1 / 0.2 = 0.5.
    assert (found["coverage_90"], found["coverage_95"]) == (1.0, 1.0)
    assert found["aleatoric"] == pytest.approx(0.04)
    assert found["epistemic"] == pytest.approx(0.005)
    assert brief_score(prediction, y, "regression") == {"nll": -found["log_likelihood"], "rmse": found["rmse"]}


def test_intervals_at_two_levels():
    # |d| / sd = 1.8 lies between the quantiles 1.645 and 1.960.
    prediction = values(noise=torch.full((2, 2, 1), 0.04))
    y = prediction.mean + 1.8 * prediction.total.sqrt()
    found = score(prediction, y, "regression")
    assert (found["coverage_90"], found["coverage_95"]) == (0.0, 1.0)


def test_noise_as_a_standard_deviation():
    y = torch.tensor([[0.8], [1.1]])
    variance, sd = values(noise=torch.full((2, 2, 1), 0.04)), values(noise_sd=torch.full((2, 2, 1), 0.2))
    assert score(sd, y, "regression") == pytest.approx(score(variance, y, "regression"), rel=1e-6, abs=1e-6)
