"""The spread that the ELBO wants: exact for a linear network, and reached by training from any start."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity import data
from posterity.core.scale import rho_of
from posterity.training.arrival import ALL, arrival_warnings, wanted_spread

NOISE, SD0, ROWS = 0.5, 0.8, 400


def linear(sds):
    """A linear network of orthogonal inputs (x'x = ROWS each) with given noise and prior."""
    x = torch.linalg.qr(torch.randn(ROWS, 30, generator=torch.Generator().manual_seed(0)))[0] * math.sqrt(ROWS)
    y = x @ torch.randn(30, 1, generator=torch.Generator().manual_seed(1))
    net = pt.bayesian(nn.Linear(30, 1, bias=False), prior=SD0, likelihood=pt.GaussianNoise(NOISE), seed=0)
    with torch.no_grad():
        net.posterior.rho.copy_(rho_of(torch.full((30,), sds, dtype=torch.float64)))
    return net, pt.Dataset.from_arrays(x, y, "regression").to(torch.float32)


def best_sd(temperature):
    """1 / sd^2 = 1 / prior^2 + x'x / (temperature noise^2)."""
    return (1 / SD0**2 + ROWS / (temperature * NOISE**2)) ** -0.5


@pytest.mark.parametrize("temperature", [1.0, 0.05])
@pytest.mark.parametrize("factor", [1.0, 0.2, 3.0])
def test_of_a_linear_network_it_is_the_exact_factor(temperature, factor):
    net, train = linear(best_sd(temperature) / factor)
    wanted = wanted_spread(net, net.likelihood, train, temperature=temperature, seed=0)
    # 16 draws of 30 weights: the mean of 480 squares of standard normals, by antithetic pairs of 240
    assert wanted[ALL] == pytest.approx(factor, rel=0.1)
    assert wanted == {ALL: wanted[ALL], "weight": wanted[ALL]}


def test_a_force_that_pushes_wants_any_spread():
    net, train = linear(0.1)
    net.likelihood = pt.GaussianNoise(1e6)
    net.prior = pt.Gaussian(1e9).bind(net.layout, net.posterior.mean.detach())
    assert wanted_spread(net, net.likelihood, train, temperature=1.0, seed=0)[ALL] == 1e3


def test_measuring_changes_nothing():
    net, train = linear(0.1)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state, noise = torch.get_rng_state(), net.noise_source.state()
    wanted_spread(net, net.likelihood, train, temperature=1.0, seed=0)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert str(net.noise_source.state()) == str(noise)
    assert net.posterior.mean.grad is None


@pytest.mark.parametrize("posterior", ["mean_field", "tied", "low_rank", "full"])
def test_every_family_that_has_a_spread_is_measured(posterior):
    x = torch.randn(40, 3)
    net = pt.bayesian(nn.Linear(3, 2), posterior=posterior, seed=0)
    assert pt.fit(net, (x, x[:, :2].argmax(1)), epochs=3).ending["sd_wanted"][ALL] > 0


def test_a_point_network_has_nothing_to_say():
    x = torch.randn(40, 3)
    net = pt.bayesian(nn.Linear(3, 2), posterior="point")
    assert pt.fit(net, (x, x[:, :2].argmax(1)), epochs=1, temperature=0.5).ending == {
        "warnings": [],
        "temperature": 0.5,
    }


def test_words_only_where_they_have_not_arrived():
    assert arrival_warnings({ALL: 1.2}) == arrival_warnings({ALL: 0.8}) == []
    assert "about 40 times what they are" in arrival_warnings({ALL: 40.0})[0]
    assert "about 0.2 times" in arrival_warnings({ALL: 0.2})[0]


def test_a_training_that_is_too_short_says_so():
    splits = data.load("two-moons", seed=0)
    net = pt.bayesian(nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 2)), rho=-12.0, seed=0)
    ending = pt.fit(net, splits.train, epochs=2).ending
    assert ending["sd_wanted"][ALL] > 10
    assert "have not arrived" in ending["warnings"][0]


@pytest.mark.parametrize("task", ["two-moons", "digits", "wave"])
def test_any_start_ends_at_the_same_spread(task):
    """Starts of rho -10, -5 and -3, sds from 0.00005 to 0.05, end within a tenth of each other, and say so."""
    train, model = TASKS[task]()
    ended, wanted = [], []
    for rho in (-10.0, -5.0, -3.0):
        torch.manual_seed(0)
        net = pt.bayesian(model(), rho=rho, seed=0)
        found = pt.fit(net, train, epochs=EPOCHS[task], seed=0).ending
        ended.append(net.posterior.sd.median().item())
        wanted.append(found["sd_wanted"][ALL])
    assert max(ended) < 1.1 * min(ended)
    assert all(1 / 1.5 < factor < 1.5 for factor in wanted)


def _moons():
    """By the network of a run that names none. Twenty units find several solutions, median sds up to 22 % apart."""
    return data.load("two-moons", seed=0).train, lambda: nn.Sequential(nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, 2))


def _digits():
    splits = data.load("digits", seed=0)
    train = pt.Standardisation.of(splits.train).apply(splits.train)
    return train, lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def _wave():
    """2000 rows of six inputs, a smooth function with noise of 0.3."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 6, generator=g)
    y = x[:, :1].sin() + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.3 * torch.randn(2000, 1, generator=g)
    train = pt.Dataset.from_arrays(x, y, "regression").to(torch.float32)
    return train, lambda: nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))


EPOCHS = {"two-moons": 1000, "digits": 120, "wave": 200}  # at most 4000 steps, fewer than there are by default
TASKS = {"two-moons": _moons, "digits": _digits, "wave": _wave}


def test_the_spread_is_measured_with_the_noise_that_was_trained_with():
    """Not with that of new data, which is another."""
    net = pt.bayesian(nn.Linear(5, 1), seed=0)
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    y = x[:, :1] + torch.randn(12, 1, generator=torch.Generator().manual_seed(1))
    train = pt.Dataset.from_arrays(x, y, "regression").to(torch.float32)
    result = pt.fit(net, train, epochs=50, seed=0, temperature=0.5)
    trained = pt.GaussianNoise(result.history[-1]["noise"])
    assert result.ending["noise"] > 1.1 * trained.noise
    wanted = wanted_spread(net, trained, train, temperature=0.5, seed=0)
    assert result.ending["sd_wanted"] == pytest.approx(wanted, rel=1e-3)
