"""Noise that varies with an input is told of: by hand, within what chance allows, and when a training ends."""

import math
import re

import pytest
import torch
from scipy import stats
from torch import nn

import posterity as pt
from posterity.data import Dataset
from posterity.data.columns import Columns, Known
from posterity.likelihoods import RealPrediction
from posterity.training.varying_noise import LEAST_ROWS, RATIO, parts, varying_noise

ROWS = 300


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def flat(n=ROWS, targets=1):
    """A predictive of mean 0 and sd 1."""
    zeros = torch.zeros(n, targets)
    return RealPrediction(zeros, zeros + 0.8, zeros + 0.6)


def told(y, x, leverage=0.0, names=()):
    return varying_noise(flat(*y.shape), y, torch.full_like(y, leverage), x, names)


def rising(seed=0, step=1.0):
    """Two inputs, with the second of which the noise grows in steps of a third of the rows."""
    x = normal(ROWS, 2, seed=seed)
    third = x[:, 1].argsort().argsort() * 3 // ROWS
    return normal(ROWS, 1, seed=seed + 1) * (1 + step * third).unsqueeze(1), x


def test_by_hand():
    y, x = rising()
    thirds = y[x[:, 1].argsort(), 0].split(ROWS // 3)
    spreads = [third.square().mean().sqrt().item() for third in thirds]
    away = [(third - third.median()).abs().numpy() for third in thirds]
    assert stats.f_oneway(*away).pvalue * 2 < 1e-3
    (warning,) = told(y, x)
    assert f"varies with input number 2 ({max(spreads) / min(spreads):.2g} times" in warning
    assert "--noise input" in warning


def test_the_input_has_a_name():
    y, x = rising()
    assert "input 'age' (" in told(y, x, names=("size", "age"))[0]


def test_the_sd_that_is_predicted_is_counted():
    y, x = rising()
    third = x[:, 1].argsort().argsort() * 3 // ROWS
    known = RealPrediction(torch.zeros_like(y), (1.0 + third).unsqueeze(1), torch.zeros_like(y))
    assert varying_noise(known, y, torch.zeros_like(y), x) == []


def test_residuals_that_are_small_since_rows_are_followed_are_no_quiet_noise():
    """A residual's variance is 1 - h of the noise's."""
    y, x = normal(ROWS, 1, seed=3), normal(ROWS, 1, seed=4)
    h = torch.where(x > x.median(), 0.85, 0.0)
    followed = y * (1 - h).sqrt()
    assert varying_noise(flat(), followed, h, x) == []
    assert varying_noise(flat(), followed, torch.zeros_like(h), x) != []


def test_noise_that_is_the_same_is_not_told_of():
    """For one of 25 inputs, in a hundred regressions with Gaussian noise, and with heavy tails."""
    for seed in range(100):
        x = normal(ROWS, 25, seed=seed)
        y = torch.as_tensor(stats.t(4).rvs((ROWS, 1), random_state=seed)).float()
        assert told(y if seed % 2 else normal(ROWS, 1, seed=seed + 500), x) == []


def test_what_grows_a_little_is_not_told_of():
    y, x = rising(step=0.25)
    assert RATIO > 1.5
    assert told(y, x) == []


@pytest.mark.parametrize("by", [torch.zeros(ROWS), torch.arange(ROWS) < 5])
def test_one_value_makes_no_parts(by):
    assert len(parts(normal(ROWS), by.float())) == 1
    assert told(normal(ROWS, 1), by.float().unsqueeze(1)) == []


def test_two_values_make_two_parts():
    group = (torch.arange(ROWS) % 5 == 0).float()
    both = parts(torch.arange(ROWS).float(), group)
    assert [len(part) for part in both] == [ROWS * 4 // 5, ROWS // 5]
    assert "number 1 (" in told(normal(ROWS, 1) * (1 + 3 * group).unsqueeze(1), group.unsqueeze(1))[0]


def test_few_rows_are_no_part():
    assert parts(normal(3 * LEAST_ROWS - 3), torch.arange(3 * LEAST_ROWS - 3).float()) == []


def test_each_target_is_looked_at():
    y, x = rising()
    assert told(torch.cat([normal(ROWS, 1, seed=9), y], dim=1), x) != []


def wave(kind):
    x = normal(400, 2, seed=11)
    sd = 0.05 + 0.3 * x[:, :1].abs() if kind == "varies" else torch.full((400, 1), 0.3)
    return x, x[:, 1:].sin() + sd * normal(400, 1, seed=12)


def fitted(data, noise="learnt", **options):
    torch.manual_seed(0)
    outputs = 2 if noise == "input" else 1
    net = pt.bayesian(nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, outputs)), seed=0)
    likelihood = pt.GaussianNoise(noise)
    return net, pt.fit(net, data, likelihood=likelihood, epochs=150, seed=0, progress=True, **options)


def about_noise(result):
    return [warning for warning in result.ending["warnings"] if re.match("the noise varies with input", warning)]


def test_a_training_ends_with_the_word_and_its_advice_helps():
    x, y = wave("varies")
    columns = Columns((Known("load"), Known("speed")))
    net, result = fitted(Dataset(x, y, "regression", columns=columns))
    (warning,) = about_noise(result)
    assert "'load'" in warning
    other, result = fitted((x, y), "input")
    assert about_noise(result) == []
    test_x, test_y = x[:200] * 0.9, (x[:200, 1:] * 0.9).sin() + (0.05 + 0.27 * x[:200, :1].abs()) * normal(200, 1)
    gain = other.predict(test_x, seed=0).log_prob(test_y) - net.predict(test_x, seed=0).log_prob(test_y)
    assert gain.mean() > 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_a_training_ends_without_it(weighted):
    """Where noise is the same; and where rows have weights, which it does not know."""
    x, y = wave("varies" if weighted else "same")
    weight = torch.ones(400) if weighted else None
    assert about_noise(fitted(Dataset(x, y, "regression", weight=weight))[1]) == []


def test_nothing_of_the_training_changes(monkeypatch):
    """It draws nothing."""
    first = fitted(wave("varies"))[0].posterior.mean.detach().clone()
    monkeypatch.setattr("posterity.training.ending.varying_noise", lambda *given: [])
    assert torch.equal(fitted(wave("varies"))[0].posterior.mean, first)
    assert math.isfinite(first.sum())
