"""A family that nobody knows of: its class, and its name in POSTERIORS, are all it takes."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.averaging import HWA
from posterity.core.errors import UnknownNameError, UsageError
from posterity.posteriors import POSTERIORS, IndependentGaussian, posterior_options


class Proportional(IndependentGaussian):
    """sd = |mean| / 10, but at least `floor`: nothing to train beside the means."""

    kind = "proportional"

    def __init__(self, mean, floor):
        super().__init__()
        self.mean, self.floor = nn.Parameter(mean.clone()), floor

    @classmethod
    def _start(cls, mean, sd, *, layers, seed, floor=0.01):
        return cls(mean, floor)

    @property
    def sd(self):
        return (0.1 * self.mean.abs()).clamp_min(self.floor)

    @classmethod
    def empty(cls, num_weights, *, floor=0.0, **options):
        return cls(torch.zeros(num_weights), floor)

    def options(self):
        return {"floor": self.floor}

    def groups(self):
        return {"mean": [self.mean]}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(POSTERIORS, Proportional.kind, Proportional)


@pytest.mark.parametrize("prior", [pt.Gaussian(), pt.Laplace(), pt.FromPenalty("group_lasso_rows")])
@pytest.mark.parametrize("estimator", ["sample", "local", "flipout"])
def test_is_trained_saved_and_loaded(prior, estimator, tmp_path):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(30, 3)
    net = pt.bayesian(model, posterior="proportional", floor=0.05, prior=prior, likelihood=pt.Categorical())
    history = pt.fit(
        net, (x, (x[:, 0] > 0).long()), epochs=10, batch_size=10, lr=0.05, temperature=0.1, estimator=estimator
    ).history
    assert history[-1]["nll"] < history[0]["nll"]
    HWA().update(net)
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", model)
    assert loaded.posterior.floor == 0.05
    assert torch.equal(loaded.predict(x, 3, seed=0).samples, net.predict(x, 3, seed=0).samples)


def test_its_options_are_its_signatures():
    assert posterior_options("proportional") == {"floor": 0.01}
    with pytest.raises(UnknownNameError, match=r"proportional posterior 'flor'.*Did you mean 'floor'"):
        pt.bayesian(nn.Linear(3, 2), posterior="proportional", flor=1.0)


def test_options_of_other_families_are_refused():
    with pytest.raises(UsageError, match="a mean_field posterior takes no options, but was given rank"):
        pt.bayesian(nn.Linear(3, 2), rank=3)
    with pytest.raises(UnknownNameError, match=r"option of a low_rank posterior 'share'.*Known: rank"):
        pt.bayesian(nn.Linear(3, 2), posterior="low_rank", share="all")
    with pytest.raises(UnknownNameError, match=r"unknown posterior 'tide'.*Did you mean 'tied'"):
        posterior_options("tide")
