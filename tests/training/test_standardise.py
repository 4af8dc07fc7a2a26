"""Standardised inside: raw data in, raw units out, wherever the network is used again; and what looks wrong is said."""

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import DataError, UsageError


def prices(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal([1000.0, 0.01], [300.0, 0.002], size=(rows, 2))
    return x, 250_000 + 90 * (x[:, 0] - 1000) + rng.normal(0, 2000, rows)


def mlp(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, outputs))


def test_answers_in_raw_units_and_is_saved_with_it(tmp_path):
    x, y = prices()
    net = pt.bayesian(mlp(), seed=0)
    result = pt.fit(net, (x, y), prices(50, 1), epochs=60, batch_size=50, standardise=True)
    assert not any("standardise" in warning for warning in result.history[-1]["warnings"])
    prediction = net.predict(x, seed=0)
    truth = torch.from_numpy(y)
    assert (prediction.mean[:, 0] - truth).abs().mean() < 8000
    low, high = prediction.interval(0.9)
    assert ((low[:, 0] <= truth) & (truth <= high[:, 0])).double().mean() > 0.8
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", mlp())
    assert torch.equal(loaded.predict(x, seed=0).mean, prediction.mean)


def test_goes_on_with_the_statistics_it_has():
    x, y = prices()
    net = pt.bayesian(mlp(), seed=0)
    pt.fit(net, (x, y), epochs=1, standardise=True)
    scale = net.standardisation
    pt.fit(net, (x * 2, y * 2), epochs=1)
    assert net.standardisation is scale


def test_resumes_exactly(tmp_path):
    x, y = prices()
    settings = {
        "schedule": "constant",
        "temperature": 0.1,
        "standardise": True,
    }  # of a course by length more is another
    pt.fit(pt.bayesian(mlp(), seed=0), (x, y), epochs=2, out=tmp_path, **settings)
    net, whole = pt.bayesian(mlp(), seed=0), pt.bayesian(mlp(), seed=0)
    with pytest.warns(pt.ProlongedWarning):
        pt.fit(net, (x, y), epochs=4, out=tmp_path, resume=True, **settings)
    pt.fit(whole, (x, y), epochs=4, **settings)
    assert torch.equal(whole.predict(x, seed=0).samples, net.predict(x, seed=0).samples)


def test_classes_keep_theirs():
    x, y = prices()
    net = pt.bayesian(mlp(2))
    pt.fit(net, (x, (y > 250_000).astype(int)), epochs=30, batch_size=50, standardise=True)
    assert (net.predict(x).label.numpy() == (y > 250_000)).mean() > 0.9


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 20.0), (20.0, 1.0)])
def test_raw_inputs_are_warned_of(shift, factor):
    """One column is enough."""
    x = torch.randn(60, 2)
    given = torch.stack([x[:, 0], shift + factor * x[:, 1]], 1)
    with pytest.warns(pt.TrainingWarning, match="^inputs are as large as .*standardise=True"):
        pt.fit(pt.bayesian(mlp(2)), (given, (x[:, 0] > 0).long()), epochs=1)


def test_a_network_that_begins_with_a_norm_takes_raw_inputs():
    net = pt.bayesian(nn.Sequential(nn.BatchNorm1d(2), mlp(2)))
    x = 300 * torch.randn(60, 2)
    warned = pt.fit(net, (x, (x[:, 0] > 0).long()), epochs=1).history[-1]["warnings"]
    assert not any("standardise" in warning for warning in warned)


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1e3), (100.0, 1.0), (0.0, 1e-3)])
def test_raw_targets_are_warned_of(shift, factor):
    x = torch.randn(60, 2)
    with pytest.warns(UserWarning, match="standardise=True"):
        result = pt.fit(pt.bayesian(mlp()), (x, shift + factor * x[:, :1]), epochs=1)
    assert any("standardise=True" in warning for warning in result.history[-1]["warnings"])


def test_standard_targets_are_not():
    x = torch.randn(60, 2)
    warned = pt.fit(pt.bayesian(mlp()), (x, x[:, :1]), epochs=1).history[-1]["warnings"]
    assert not any("standardise" in warning for warning in warned)


ZERO_ONE = torch.tensor([0.0, 1.0]).repeat(20)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (ZERO_ONE, "integers or task='binary'"),
        (ZERO_ONE.unsqueeze(1), "integers or task='binary'"),
        (torch.eye(3).repeat(10, 1), r"y.argmax\(1\)"),
        (torch.tensor([[1.0, 1.0], [0.0, 1.0]]).repeat(9, 1), "likelihood=MultiLabel"),
    ],
)
def test_classes_in_disguise_are_refused(y, words):
    x = torch.randn(len(y), 2)
    net = pt.bayesian(mlp(1 if y.ndim == 1 else y.shape[1]))
    with pytest.raises(DataError, match=words):
        pt.fit(net, (x, y), epochs=1)
    with pytest.raises(DataError, match="task='regression'"):
        pt.Dataset.from_arrays(x, y)


def test_what_is_said_to_be_meant_is_taken():
    x = torch.randn(40, 2)
    assert pt.Dataset.from_arrays(x, ZERO_ONE, "regression").task == "regression"
    assert pt.Dataset.from_arrays(x, ZERO_ONE, "binary").task == "binary"
    pt.fit(pt.bayesian(mlp()), (x, ZERO_ONE), epochs=1, likelihood=pt.GaussianNoise())
    pt.fit(pt.bayesian(mlp()), (x, torch.zeros(40)), epochs=1)


@pytest.mark.parametrize("epochs", [2.5, 0, -1, True, "many"])
def test_epochs_that_are_none(epochs):
    with pytest.raises(UsageError, match="epochs"):
        pt.fit(pt.bayesian(mlp()), prices(), epochs=epochs)


def test_a_prediction_prints_in_a_few_lines():
    x = torch.randn(500, 2)
    net = pt.bayesian(mlp())
    pt.fit(net, (x, x[:, :1]), epochs=1)
    assert len(str(net.predict(x)).splitlines()) <= 3
