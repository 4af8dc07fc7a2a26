"""A learnt noise goes to where the residuals are, by a closed form, whatever trains the network."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt

TRUE = 0.3


def sd_of(likelihood):
    return F.softplus(likelihood.rho.detach())


def test_the_whole_way_is_the_batchs_best():
    """s^2 = mean (y - z)^2 over rows and weight samples, which is where the nll is least."""
    likelihood = pt.GaussianNoise("learnt", num_targets=2)
    g = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(3, 50, 2, generator=g), torch.randn(50, 2, generator=g)
    likelihood.adapt(outputs, y, 1.0)
    torch.testing.assert_close(sd_of(likelihood), (y - outputs).square().mean((0, 1)).sqrt())
    gradient = torch.autograd.grad(likelihood.nll(outputs, y), likelihood.rho)[0]
    assert gradient.abs().max() < 1e-6


def test_a_share_of_the_way_by_hand():
    likelihood = pt.GaussianNoise("learnt")
    likelihood.adapt(torch.zeros(1, 2, 1), torch.tensor([[1.0], [-3.0]]), 0.25)
    assert sd_of(likelihood).item() == pytest.approx(math.sqrt(0.75 * math.log(2) ** 2 + 0.25 * 5), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_whatever_the_targets_scale(scale):
    likelihood = pt.GaussianNoise("learnt")
    y = scale * torch.randn(200, 1, generator=torch.Generator().manual_seed(1))
    likelihood.adapt(torch.zeros(1, 200, 1), y, 1.0)
    torch.testing.assert_close(sd_of(likelihood)[0], y.square().mean().sqrt(), rtol=1e-5, atol=0)


def test_targets_that_are_met_exactly_leave_some():
    likelihood = pt.GaussianNoise("learnt")
    y = torch.tensor([[1.0], [3.0]])
    likelihood.adapt(y[None], y, 1.0)
    assert sd_of(likelihood).item() == pytest.approx(1e-3, rel=1e-4)
    likelihood.adapt(torch.ones(1, 2, 1), torch.ones(2, 1), 1.0)  # nor is a constant a reason for 0
    assert likelihood.rho.isfinite().all()


def test_other_noise_is_left_alone():
    outputs, y = torch.zeros(1, 2, 2), torch.ones(2, 1)
    for noise in (0.5, "input"):
        likelihood = pt.GaussianNoise(noise)
        likelihood.adapt(outputs, y, 1.0)
        assert not list(likelihood.parameters())
        assert likelihood.learnt() == {}


def linear(count=400):
    g = torch.Generator().manual_seed(2)
    x = torch.randn(count, 3, generator=g)
    return x, x.sum(1, keepdim=True) + TRUE * torch.randn(count, 1, generator=g)


@pytest.mark.parametrize(
    ("posterior", "settings"),
    [
        ("mean_field", {"lr": 0.03}),
        ("mean_field", {"optimizer": "sgd", "lr": 3e-3}),
        ("mean_field", {"optimizer": "ivon", "lr": 0.05}),
        ("point", {"optimizer": "sgld"}),
        ("point", {"lr": 0.03, "temperature": 0.0}),
    ],
)
def test_it_arrives_whatever_trains_the_network(posterior, settings):
    torch.manual_seed(0)
    net = pt.bayesian(nn.Linear(3, 1), posterior=posterior, prior=1.0, rho=-5.0, seed=0)
    result = pt.fit(net, linear(), epochs=60, batch_size=50, **settings)
    assert result.history[-1]["noise"] == pytest.approx(TRUE, rel=0.1)
    assert result.ending["noise"] == pytest.approx(TRUE, rel=0.1)
    assert result.ending["noise"] == sd_of(net.likelihood).item()


def test_several_targets_have_one_each():
    x, y = linear()
    net = pt.bayesian(nn.Linear(3, 2), prior=5.0, seed=0)
    result = pt.fit(
        net, (x, torch.cat([y, 5 * y], 1)), epochs=80, batch_size=50, optimizer="adam", lr=0.1, temperature=0.1
    )
    assert result.history[-1]["noise"] == pytest.approx([TRUE, 5 * TRUE], rel=0.15)


def test_in_a_loop_of_ones_own_it_is_a_parameter():
    likelihood = pt.GaussianNoise("learnt")
    net = pt.bayesian(nn.Linear(3, 1), likelihood=likelihood, seed=0)
    assert any(p is likelihood.rho for p in net.parameters())
    x, y = linear(20)
    pt.negative_elbo(net, likelihood, x, y, num_data=20).backward()
    assert likelihood.rho.grad.abs() > 0


def test_input_noise_starts_at_the_spread_of_the_targets():
    likelihood = pt.GaussianNoise("input")
    y = 50 * torch.randn(200, 1)
    likelihood.begin(y)
    assert likelihood.unit.item() == pytest.approx(y.std(correction=0).item())
    once = likelihood.unit.clone()
    likelihood.begin(3 * y)  # trained before: what its outputs mean stays
    assert torch.equal(likelihood.unit, once)


def test_input_noise_arrives():
    """Noise of 0.3 and of 0.9 in two halves."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(600, 1, generator=g) * 2 - 1
    y = x + torch.where(x < 0, 0.3, 0.9) * torch.randn(600, 1, generator=g)
    net = pt.bayesian(
        nn.Sequential(nn.Linear(1, 30), nn.Tanh(), nn.Linear(30, 2)), likelihood=pt.GaussianNoise("input"), seed=0
    )
    pt.fit(net, (x, y), epochs=200, temperature=0.1, seed=0)
    low, high = net.predict(torch.tensor([[-0.7], [0.7]]), seed=0).aleatoric_sd.flatten().tolist()
    assert low == pytest.approx(0.3, rel=0.25)
    assert high == pytest.approx(0.9, rel=0.25)


def test_targets_far_from_1_are_worth_a_word():
    """Weights of a usual size do not reach them, and the noise would stand for what was not learnt."""
    x, y = linear()
    with pytest.warns(UserWarning, match="standardise=True"):
        record = pt.fit(pt.bayesian(nn.Linear(3, 1), seed=0), (x, 300 * y), epochs=1).history[-1]
    assert any("standardise=True" in warning for warning in record["warnings"])
    record = pt.fit(pt.bayesian(nn.Linear(3, 1), seed=0), (x, y), epochs=1).history[-1]
    assert not any("standardise" in warning for warning in record["warnings"])
