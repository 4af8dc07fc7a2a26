"""Estimators and kinds of gradients in `fit`: they train, and resume to the last bit."""

import pytest
import torch
from torch import nn

import posterity as pt

SETTINGS = [
    {"estimator": "local"},
    {"estimator": "flipout"},
    {"estimator": "flipout", "gradient": "path", "samples": 2},
    {"gradient": "total"},
    {"gradient": "score", "baseline": "moving", "samples": 2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("at", [3, 13])
def test_resumes_to_the_last_bit(check_resumption, curve, curve_net, settings, at, tmp_path):
    check_resumption(curve_net, curve, at, tmp_path / "run", epochs=5, batch_size=10, temperature=0.01, **settings)


class Twice(nn.Module):
    """What a resumed training learns anew: a weight that is used twice, beside batch statistics and dropout."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.norm, self.last = (
            nn.Linear(1, 4), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1),
        )  # fmt: skip

    def forward(self, x):
        x = self.norm(self.shared(torch.tanh(self.shared(torch.tanh(self.first(x))))))
        return self.last(nn.functional.dropout(x, 0.2, self.training))


class ByChance(nn.Module):
    """Calls one module once or twice, as it happens."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(1, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        for _ in range(1 + int(torch.rand(()) < 0.3)):
            x = torch.tanh(self.shared(x))
        return self.last(x)


@pytest.mark.parametrize("estimator", ["local", "flipout"])
@pytest.mark.parametrize("model", [Twice, ByChance])
def test_a_network_with_shared_weights_resumes_to_the_last_bit(check_resumption, curve, model, estimator, tmp_path):
    def build():
        torch.manual_seed(0)
        return pt.bayesian(model(), rho=-3.0, seed=0)

    check_resumption(build, curve, 7, tmp_path / "run", epochs=6, batch_size=10, estimator=estimator)


@pytest.mark.parametrize("settings", SETTINGS[:4], ids=lambda s: "-".join(map(str, s.values())))
def test_trains(curve, curve_net, settings):
    history = pt.fit(curve_net(), curve, epochs=40, batch_size=10, lr=0.01, temperature=0.01, **settings).history
    assert history[-1]["nll"] < history[0]["nll"] - 0.05
