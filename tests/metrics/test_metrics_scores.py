"""The tables of metrics: each row by hand or by its function, on predictions of two weight samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from posterity import metrics
from posterity.core.errors import UsageError
from posterity.likelihoods import RealPrediction, StudentPrediction
from posterity.likelihoods.classes import predict_classes
from posterity.metrics import CLASSIFICATION, REGRESSION, brief_score, score

Y = torch.tensor([[0.8], [1.1]])


def classes():
    return predict_classes(torch.tensor([[[0.8, 0.2], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]]))


def values():
    samples = torch.tensor([[[0.4], [1.0]], [[0.6], [1.0]]])
    noise = torch.full((2, 2, 1), 0.2)
    return RealPrediction(samples.mean(0), noise[0], samples.std(0, correction=0), samples, noise)


def entropy(*probs):
    return -sum(p * math.log(p) for p in probs)


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
    assert found["entropy"] == pytest.approx(entropy(0.7, 0.3), rel=1e-5)
    aleatoric = (entropy(0.8, 0.2) + entropy(0.6, 0.4) + entropy(0.5, 0.5) + entropy(0.1, 0.9)) / 4
    assert found["aleatoric"] == pytest.approx(aleatoric, rel=1e-5)
    assert found["epistemic"] == pytest.approx(entropy(0.7, 0.3) - aleatoric, rel=1e-4)
    assert brief_score(classes(), torch.tensor([0, 0]), task) == {"nll": found["nll"], "accuracy": 0.5}


def test_values_by_hand():
    prediction = values()
    found = score(prediction, Y, "regression")
    assert list(found) == list(REGRESSION)
    assert found["rmse"] == pytest.approx(math.sqrt((0.3**2 + 0.1**2) / 2))
    density = [[math.exp(-0.5 * (t - m) ** 2 / 0.04) for m in ms] for t, ms in ((0.8, (0.4, 0.6)), (1.1, (1.0, 1.0)))]
    constant = -0.5 * math.log(2 * math.pi * 0.04)
    assert found["log_likelihood"] == pytest.approx(constant + sum(math.log(sum(d) / 2) for d in density) / 2, rel=1e-5)
    expected = constant + sum(math.log(e) for d in density for e in d) / 4
    assert found["expected_log_likelihood"] == pytest.approx(expected, abs=1e-6)
    assert found["crps"] == pytest.approx(metrics.crps_gaussian(prediction.mean, prediction.total, Y), rel=1e-6)
    # |d| / sd is 0.3 / sqrt(0.05) = 1.34 and 0.1 / 0.2 = 0.5.
    assert (found["coverage_90"], found["coverage_95"]) == (1.0, 1.0)
    assert found["aleatoric"] == pytest.approx(0.04)
    assert found["epistemic"] == pytest.approx(0.005)
    assert brief_score(prediction, Y, "regression") == {"nll": -found["log_likelihood"], "rmse": found["rmse"]}


def test_intervals_at_two_levels():
    # |d| / sd = 1.8 lies between the quantiles 1.645 and 1.960.
    prediction = values()
    found = score(prediction, prediction.mean + 1.8 * prediction.sd, "regression")
    assert (found["coverage_90"], found["coverage_95"]) == (0.0, 1.0)


@pytest.mark.parametrize("unit", [1e19, 1e-23])
def test_units_whose_squares_single_precision_does_not_hold(unit):
    plain = score(values(), Y, "regression")
    found = score(values().rescaled(0.0, unit), unit * Y, "regression")
    for name in ("rmse", "crps"):
        assert found[name] == pytest.approx(unit * plain[name], rel=1e-5)
    for name in ("aleatoric", "epistemic"):
        assert found[name] == pytest.approx(unit**2 * plain[name], rel=1e-5)
    for name in ("log_likelihood", "expected_log_likelihood"):
        assert found[name] == pytest.approx(plain[name] - math.log(unit), rel=1e-5)
    assert [found[f"coverage_{level}"] for level in (90, 95)] == [1.0, 1.0]


def test_moments_alone():
    full = values()
    alone = RealPrediction(full.mean, full.aleatoric_sd, full.epistemic_sd)
    found, expected = score(alone, Y, "regression"), score(full, Y, "regression")
    gaussian = torch.distributions.Normal(full.mean, full.total.sqrt()).log_prob(Y).mean().item()
    assert found.pop("log_likelihood") == pytest.approx(gaussian, rel=1e-5)
    expected.pop("log_likelihood")
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_expected_nll_of_classes_needs_samples():
    with pytest.raises(UsageError, match="needs weight samples"):
        score(replace(classes(), samples=None), torch.tensor([0, 0]), "classification")


def heavy(df=3.0, noise=0.5):
    """A mixture of Student's t for three data, their samples and draws of the predictive."""
    g = np.random.default_rng(0)
    means = torch.as_tensor(g.normal(size=(5, 3, 1)))
    sds = torch.full_like(means, noise)
    made = StudentPrediction(
        means.mean(0), sds[0], means.std(0, correction=0), means, sds, torch.full_like(means[0], df)
    )
    scale = noise * (1.0 if math.isinf(df) else math.sqrt(1 - 2 / df))
    which = g.integers(5, size=(400_000, 3))
    noises = stats.norm if math.isinf(df) else stats.t(df)
    return made, means[which, [0, 1, 2], 0].numpy() + scale * noises.rvs(size=(400_000, 3), random_state=g)


@pytest.mark.parametrize("df", [2.6, 5.0, math.inf])
@pytest.mark.parametrize("noise", [0.1, 0.5, 3.0])
def test_heavy_tails_have_their_own_crps_and_coverage(df, noise):
    """Against draws of the predictive: E|Y - y| - E|Y - Y'| / 2, and the share within the quantiles."""
    p, drawn = heavy(df, noise)
    y = torch.tensor([[0.3], [-9.0], [1.5]]).double()
    found = metrics.score(p, y, "regression")
    halves = np.abs(drawn[::2] - drawn[1::2]).mean(0) / 2
    expected = np.abs(drawn - y[:, 0].numpy()).mean(0) - halves
    assert p.crps(y)[:, 0].tolist() == pytest.approx(expected.tolist(), rel=0.02)
    assert found["crps"] == pytest.approx(expected.mean(), rel=0.02)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    ours = [end[:, 0].tolist() for end in p.interval(0.9)]
    assert ours[0] == pytest.approx(low.tolist(), rel=0.03, abs=0.03 * noise)
    assert ours[1] == pytest.approx(high.tolist(), rel=0.03, abs=0.03 * noise)
    inside = (low <= y[:, 0].numpy()) & (y[:, 0].numpy() <= high)
    assert found["coverage_90"] == pytest.approx(inside.mean())
    assert set(found) == set(REGRESSION)


def test_the_crps_of_a_students_t_by_integration():
    p, y = heavy(3.0)[0], torch.tensor([[0.3], [-9.0], [1.5]]).double()
    for row in range(3):
        parts = stats.t(3.0, p.samples[:, row, 0].numpy(), 0.5 * math.sqrt(1 / 3))
        at = y[row].item()
        below = integrate.quad(lambda u, parts=parts: parts.cdf(u).mean() ** 2, -math.inf, at, epsabs=1e-9)[0]
        above = integrate.quad(lambda u, parts=parts: parts.sf(u).mean() ** 2, at, math.inf, epsabs=1e-9)[0]
        assert p.crps(y)[row].item() == pytest.approx(below + above, rel=1e-3)
