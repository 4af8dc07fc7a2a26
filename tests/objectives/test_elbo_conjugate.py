"""Bayesian linear regression with known noise: the best mean-field posterior is known exactly.

precision A = x'x / s^2 + 1 / prior_sd^2,   mean = A^-1 (x'y / s^2 + prior_mean / prior_sd^2),   var_i = 1 / A_ii
"""

import math

import pytest
import torch
from torch import nn

import posterity as pt

NOISE, PRIOR_SD, N = 0.5, 0.8, 30


def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=g, dtype=torch.float64)
    x[:, 1] += 0.6 * x[:, 0]  # correlated weights: mean-field must shrink their variances
    y = x @ torch.tensor([[1.0], [-2.0], [0.3]], dtype=torch.float64)
    return x, y + NOISE * torch.randn(N, 1, generator=g, dtype=torch.float64)


def exact(x, y, temperature=1.0, prior_mean=0.0):
    precision = x.T @ x / NOISE**2 + temperature * torch.eye(3).double() / PRIOR_SD**2
    right = x.T @ y / NOISE**2 + temperature * prior_mean / PRIOR_SD**2
    return torch.linalg.solve(precision, right).squeeze(-1), precision


def train(x, y, steps, *, prior_mean=0.0, batch_size=N, posterior="mean_field", temperature=1.0):
    torch.manual_seed(0)
    prior = pt.Gaussian(PRIOR_SD, mean=prior_mean)
    net = pt.bayesian(nn.Linear(3, 1, bias=False).double(), prior=prior, posterior=posterior, rho=-2.0, seed=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.5 * (1 + math.cos(math.pi * t / steps)))
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randperm(N, generator=g)[:batch_size]
        optimizer.zero_grad()
        pt.negative_elbo(
            net, pt.GaussianNoise(NOISE), x[rows], y[rows], num_data=N, samples=8, temperature=temperature
        ).backward()
        optimizer.step()
        schedule.step()
    return net


@pytest.mark.parametrize(("prior_mean", "batch_size"), [(0.0, N), (0.7, N), (0.0, 10)])
def test_mean_field_finds_the_exact_means_and_conditional_variances(prior_mean, batch_size):
    x, y = data()
    net = train(x, y, 600, prior_mean=prior_mean, batch_size=batch_size)
    mean, precision = exact(x, y, prior_mean=prior_mean)
    sd = precision.diagonal().rsqrt()
    # In standard deviations; the noise of small batches is larger than that of the weights.
    assert ((net.posterior.mean - mean).abs() / sd).max() < (0.1 if batch_size == N else 0.3)
    torch.testing.assert_close(net.posterior.sd.detach(), sd, rtol=0.05, atol=0)


def test_the_bound_is_the_log_evidence_for_orthogonal_inputs():
    x = torch.linalg.qr(data()[0]).Q * math.sqrt(N)
    y = data()[1]
    mean, precision = exact(x, y)
    net = train(x, y, 1)
    with torch.no_grad():
        net.posterior.mean.copy_(mean)
        net.posterior.rho.copy_(pt.posteriors.rho_of(precision.diagonal().rsqrt()))
        loss = pt.negative_elbo(net, pt.GaussianNoise(NOISE), x, y, num_data=N, samples=20_000)
    covariance = NOISE**2 * torch.eye(N).double() + PRIOR_SD**2 * x @ x.T
    evidence = torch.distributions.MultivariateNormal(torch.zeros(N).double(), covariance).log_prob(y.squeeze(-1))
    assert loss.item() == pytest.approx(-evidence.item() / N, abs=2e-3)


def test_point_finds_the_ridge_solution():
    x, y = data()
    net = train(x, y, 400, posterior="point")
    torch.testing.assert_close(net.posterior.mean.detach(), exact(x, y)[0], rtol=1e-4, atol=1e-5)
    free = train(x, y, 400, posterior="point", temperature=0.0)
    least_squares = torch.linalg.lstsq(x, y).solution.squeeze(-1)
    torch.testing.assert_close(free.posterior.mean.detach(), least_squares, rtol=1e-4, atol=1e-5)
