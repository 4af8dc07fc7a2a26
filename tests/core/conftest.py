"""With and without compiled passes."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core import kernels
from posterity.objectives import draw


@pytest.fixture
def plain(monkeypatch):
    """A function that makes all that follows PyTorch's."""
    return lambda: monkeypatch.setattr(kernels, "_kernels", None)


@pytest.fixture
def calls(monkeypatch):
    """How often each compiled pass was called."""
    counts = dict.fromkeys(("draw", "gradient", "ivon"), 0)

    def counted(name, function):
        def call(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return call

    for name in counts:
        monkeypatch.setattr(kernels, name, counted(name, getattr(kernels, name)))
    return counts


@pytest.fixture
def made(monkeypatch):
    """A function that makes networks which count as large: 6,024 weights in two layers."""
    monkeypatch.setattr(kernels, "MANY", 1000)
    monkeypatch.setattr(draw, "FEW_WEIGHTS", 1000)

    def make(**options):
        torch.manual_seed(1)
        net = pt.bayesian(nn.Sequential(nn.Linear(50, 80), nn.Tanh(), nn.Linear(80, 24)), seed=2, **options)
        with torch.no_grad():
            for parameter in net.posterior.parameters():
                parameter += 0.5 * torch.randn_like(parameter)
        return net

    return make
