"""Networks on other devices, as far as a CPU can tell.

A tensor that is made without a device lands on "meta" here, where it has no values: a training that still is the same
has made everything where the network is, or on the CPU by name. And a device without double precision is played by the
CPU: none of its numbers may then be double.
"""

from __future__ import annotations

import traceback

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

import posterity as pt
from posterity.core import precision
from posterity.core.inputs import moved

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
LABELS, TARGETS = (X[:, 0] > 0).long(), X.sum(1)
# What is on the CPU by name: weights of batches, metrics, and an average that has nothing yet.
ON_THE_CPU = ("objectives/weighting.py", "/metrics/", "averaging/running.py")

SETTINGS = {
    "plain": {},
    "local": {"estimator": "local"},
    "flipout": {"estimator": "flipout"},
    "path": {"gradient": "path", "samples": 2},
    "swa": {"average": "swa", "average_start": 0.0},
    "hwa": {"average": "hwa", "average_start": 0.0},
    "sgd, clipped": {"optimizer": "sgd", "clip": 1.0},
    "ivon": {"optimizer": "ivon"},
    "learnt prior": {"learn_prior": True},
}


def make(outputs, **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, outputs))
        return pt.bayesian(model, seed=0, **options)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_nothing_is_made_on_the_default_device(name, task, same):
    y = LABELS if task == "classes" else TARGETS

    def net():
        likelihood = pt.Categorical() if task == "classes" else pt.GaussianNoise()
        return make(2 if task == "classes" else 1, likelihood=likelihood)

    usual, elsewhere = net(), net()
    pt.fit(usual, (X, y), (X, y), epochs=2, **SETTINGS[name])
    with torch.device("meta"):
        pt.fit(elsewhere, (X, y), (X, y), epochs=2, **SETTINGS[name])
        prediction = elsewhere.predict(X, 3, seed=0)
    assert same(dict(usual.state_dict()), dict(elsewhere.state_dict()))
    assert torch.equal(prediction.mean, usual.predict(X, 3, seed=0).mean)


def test_rows_of_a_dataset_are_fetched_alike(same):
    usual, elsewhere = make(2), make(2)
    pt.fit(usual, TensorDataset(X, LABELS), epochs=1)
    with torch.device("meta"):
        pt.fit(elsewhere, TensorDataset(X, LABELS), epochs=1)
    assert same(dict(usual.state_dict()), dict(elsewhere.state_dict()))


class NoDouble(TorchDispatchMode):
    """Where double precision was used, but for what is on the CPU by name."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = out if isinstance(out, (tuple, list)) else [out]
        if any(isinstance(one, torch.Tensor) and one.dtype == torch.float64 for one in made):
            own = [frame for frame in traceback.extract_stack() if "/posterity/" in frame.filename]
            if own and not any(place in own[-1].filename for place in ON_THE_CPU):
                self.found.add(f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}")
        return out


@pytest.mark.parametrize("name", ["plain", "local", "swa", "hwa", "ivon"])
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_devices_without_double_precision(name, task, monkeypatch):
    y, net = (LABELS, make(2)) if task == "classes" else (TARGETS, make(1))
    monkeypatch.setattr(precision, "WITHOUT_DOUBLE", frozenset({"cpu"}))
    with NoDouble() as watched:
        pt.fit(net, (X, y), (X, y), epochs=1, **SETTINGS[name])
        net.predict(X, 3)
    assert watched.found == set()


def test_data_follow_the_network():
    whole = {"real": X.double(), "tokens": LABELS, "mask": LABELS.bool()}
    placed = moved(whole, torch.empty(1, device="meta"))
    assert {name: (str(part.device), part.dtype) for name, part in placed.items()} == {
        "real": ("meta", torch.float32),
        "tokens": ("meta", torch.int64),
        "mask": ("meta", torch.bool),
    }
    net = make(2).double()
    pt.fit(net, (X, LABELS), epochs=1)
    assert net.posterior.mean.dtype == torch.float64
    assert net.predict(X.numpy()).mean.dtype == torch.float64
    assert net.predict(X.numpy()).cpu().mean.device.type == "cpu"
