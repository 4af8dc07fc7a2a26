import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt

pytest.importorskip("jax", reason="jax is installed with benchmarks/requirements.txt only", exc_type=ImportError)

from nuts import Plan, cached_sample, convergence, discrepancy, log_density
from quality_problems import PROBLEMS


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_log_density_is_the_librarys(name, temperature):
    problem = PROBLEMS[name]()
    net = problem.network(0, dtype=torch.float64)
    assert discrepancy(net, problem.train.x, problem.train.y, temperature) < 1e-4


def test_log_density_is_minus_the_loss_of_a_point_network():
    problem = PROBLEMS["gap"]()
    net = problem.network(1, dtype=torch.float64, posterior="point")
    x, y = problem.train.x.double(), problem.train.y.double()
    loss = pt.negative_elbo(net, net.likelihood, x, y, num_data=len(x), temperature=0.3)
    density = log_density(net, x, y, temperature=0.3)(net.posterior.mean.detach().numpy())
    assert float(density) == pytest.approx(-len(x) * loss.item() / 0.3, abs=1e-4)


def test_other_priors_are_refused():
    net = pt.bayesian(nn.Linear(1, 1), prior=pt.Gaussian(1.0, mean=0.5), likelihood=pt.GaussianNoise(0.1))
    with pytest.raises(ValueError, match="mean 0"):
        log_density(net, torch.zeros(2, 1), torch.zeros(2, 1))


def test_sampler_finds_the_conjugate_posterior(tmp_path):
    pytest.importorskip("numpyro", exc_type=ImportError)
    generator = torch.Generator().manual_seed(0)
    x, noise, temperature = torch.randn(20, 1, generator=generator), 0.5, 0.5
    y = 0.7 * x - 0.2 + noise * torch.randn(20, 1, generator=generator)
    net = pt.bayesian(nn.Linear(1, 1).double(), prior=2.0, likelihood=pt.GaussianNoise(noise))
    plan, data = Plan(chains=2, warmup=200, draws=400), pt.Dataset(x, y, "regression")
    draws = cached_sample(net, data, temperature, plan, tmp_path)
    design = np.concatenate([x.double().numpy(), np.ones((20, 1))], axis=1)
    covariance = np.linalg.inv(design.T @ design / (noise**2 * temperature) + np.eye(2) / 4)
    mean = covariance @ design.T @ y.double().numpy()[:, 0] / (noise**2 * temperature)
    flat = draws.weights.reshape(-1, 2)
    assert flat.mean(0) == pytest.approx(mean, abs=0.25 * np.sqrt(covariance.diagonal()).min())
    assert np.cov(flat.T) == pytest.approx(covariance, abs=0.25 * covariance.diagonal().max())
    assert convergence(draws.weights)["converged"]
    again = cached_sample(net, data, temperature, plan, tmp_path)
    assert (again.weights == draws.weights).all()
    assert again.seconds == draws.seconds


def test_chains_that_disagree_are_not_called_converged():
    pytest.importorskip("numpyro", exc_type=ImportError)
    outputs = np.random.default_rng(0).standard_normal((4, 400, 3))
    assert convergence(outputs)["converged"]
    outputs[0, :, 1] += 1
    assert not convergence(outputs)["converged"]
