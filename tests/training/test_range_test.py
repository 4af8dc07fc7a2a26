import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.data import Dataset
from posterity.training.range_test import _steepest


def data():
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    return Dataset(x, torch.sin(3 * x), "regression")


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    return pt.bayesian(model, rho=-4.0, seed=0, likelihood=pt.GaussianNoise(0.1))


def test_leaves_the_network_and_the_generators_as_they_were():
    net = network()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    noise, rng = net.noise_source.state(), torch.get_rng_state()
    pt.range_test(net, data(), steps=30)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(net.noise_source.state(), noise)
    assert torch.equal(torch.get_rng_state(), rng)


def test_rates_grow_exponentially_and_sgd_breaks():
    result = pt.range_test(network(), data(), optimizer="sgd", low=1e-6, high=1e3, steps=50, temperature=0.0)
    ratios = [b / a for a, b in zip(result.rates, result.rates[1:], strict=False)]
    assert ratios == pytest.approx([1e9 ** (1 / 49)] * len(ratios))
    assert result.diverged is not None
    assert len(result.rates) == len(result.losses) == len(result.smoothed) < 50
    assert 1e-6 < result.suggestion < result.diverged


def test_one_group_alone():
    net = network()
    both = pt.range_test(net, data(), steps=20, temperature=0.0)
    means = pt.range_test(net, data(), steps=20, temperature=0.0, group="mean")
    sds = pt.range_test(net, data(), steps=20, temperature=0.0, group="sd")
    assert means.losses != both.losses != sds.losses
    assert means.losses[0] == both.losses[0] == sds.losses[0]  # the first loss is before any step


def test_the_suggestion_is_the_steepest_fall():
    rates = [10.0**i for i in range(7)]
    assert _steepest(rates, [5.0, 5.0, 4.9, 2.0, 1.0, 0.9, 4.0]) == 1e3
    assert _steepest(rates, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]) == 0.1


def test_errors():
    with pytest.raises(UsageError, match="Did you mean 'mean'"):
        pt.range_test(network(), data(), group="means")
    with pytest.raises(UsageError, match="at least 10 steps"):
        pt.range_test(network(), data(), steps=3)
    with pytest.raises(UsageError, match="low to high"):
        pt.range_test(network(), data(), low=1.0, high=0.1)
