import math

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from posterity.core.errors import UsageError
from posterity.optim import SGLD, SampleCollector
from posterity.optim.sgld import PAIRS, StepNoise


def test_noise_has_the_moments_of_a_normal():
    n = 400_000
    noise = StepNoise(StepNoise.begin(0)).like(torch.empty(n, dtype=torch.float64))
    assert noise.mean().item() == pytest.approx(0, abs=4 / math.sqrt(n))
    assert noise.square().mean().item() == pytest.approx(1, abs=4 * math.sqrt(2 / n))
    assert noise.pow(3).mean().item() == pytest.approx(0, abs=4 * math.sqrt(15 / n))
    assert noise.pow(4).mean().item() == pytest.approx(3, abs=4 * math.sqrt(96 / n))
    assert noise.abs().max() < 4.5
    assert (noise[1:] * noise[:-1]).mean().item() == pytest.approx(0, abs=4 / math.sqrt(n))


def test_pairs_against_the_normal_distribution():
    pairs = PAIRS.view(torch.float32).view(-1, 2).double()
    assert pairs.shape == (2**14, 2)
    exact = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2**13, dtype=torch.float64) + 0.5) / 2**13)
    for values in pairs.T:
        torch.testing.assert_close(values.sort().values.view(-1, 2).T, exact.repeat(2, 1), rtol=1e-3, atol=1e-6)
        assert values.square().mean().item() == pytest.approx(1, rel=1e-7)
        assert values.pow(4).mean().item() == pytest.approx(3, rel=0.01)
    x, y = pairs.T
    for power in (1, 2, 3):
        assert (x**power * y).mean().item() == pytest.approx(0, abs=1e-12)
    assert (x.square() * y.square()).mean().item() == pytest.approx(1, rel=0.003)
    # As even over the plane as independent ones: each of 64 equally likely cells has its share.
    cells = (torch.distributions.Normal(0.0, 1.0).cdf(pairs) * 8).long()
    assert (cells[:, 0] * 8 + cells[:, 1]).bincount().tolist() == pytest.approx([2**14 / 64] * 64, rel=0.02)


def test_one_step_by_hand():
    w = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    optimizer = SGLD([w], lr=0.01, num_data=50, temperature=0.25, seed=7)
    noise = StepNoise(StepNoise.begin(7)).like(torch.empty(2, dtype=torch.float64))
    w.grad = torch.tensor([0.3, -0.2], dtype=torch.float64)
    expected = w.detach() - 0.005 * 50 * w.grad + math.sqrt(0.01 * 0.25) * noise
    optimizer.step()
    torch.testing.assert_close(w.detach(), expected)


@pytest.mark.parametrize("temperature", [0.0, 0.25])
def test_one_preconditioned_step_by_hand(temperature):
    w = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    optimizer = SGLD([w], lr=0.01, num_data=50, temperature=temperature, preconditioned=True, seed=7)
    noise = StepNoise(StepNoise.begin(7)).like(torch.empty(2, dtype=torch.float64))
    g = torch.tensor([0.3, -0.2], dtype=torch.float64)
    w.grad = g.clone()
    conditioner = 1 / ((0.01 * g**2).sqrt() + 1e-5)
    expected = w.detach() - 0.005 * 50 * conditioner * g + (0.01 * temperature * conditioner).sqrt() * noise
    optimizer.step()
    torch.testing.assert_close(w.detach(), expected)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_stationary_law_of_a_gaussian(temperature):
    # Every element is a chain of its own. U = a/2 (w - c)^2; the discrete chain's variance is T/(a (1 - lr a/4)).
    chains, a, c, lr, data = 20_000, 4.0, 1.5, 0.05, 30
    w = nn.Parameter(torch.zeros(chains))
    optimizer = SGLD([w], lr=lr, num_data=data, temperature=temperature, seed=2)
    for _ in range(200):
        w.grad = a * (w.detach() - c) / data
        optimizer.step()
    variance = temperature / (a * (1 - lr * a / 4))
    assert w.mean().item() == pytest.approx(c, abs=4 * math.sqrt(variance / chains))
    assert w.var().item() == pytest.approx(variance, rel=4 * math.sqrt(2 / chains))
    kurtosis = ((w - w.mean()) ** 4).mean() / w.var() ** 2
    assert kurtosis.item() == pytest.approx(3, abs=4 * math.sqrt(24 / chains))


def test_small_logistic_regression_against_quadrature():
    x = torch.tensor([[1.0, -1.2], [1.0, -0.4], [1.0, 0.1], [1.0, 0.5], [1.0, 0.9], [1.0, 1.7]])
    y = torch.tensor([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])

    def energy(w):
        """-log posterior density of weights (R, 2)."""
        return softplus(-y * (w @ x.t())).sum(1) + 0.5 * w.square().sum(1)

    axis = torch.linspace(-6, 6, 401)
    grid = torch.cartesian_prod(axis, axis)
    density = (-energy(grid)).double().softmax(0)
    mean = density @ grid.double()
    covariance = (grid.double() - mean).t() @ (density[:, None] * (grid.double() - mean))

    chains = 4000
    w = nn.Parameter(torch.zeros(chains, 2))
    optimizer = SGLD([w], lr=0.02, num_data=len(x), seed=0)
    for _ in range(700):
        optimizer.zero_grad()
        (energy(w).sum() / len(x)).backward()
        optimizer.step()
    found = w.detach().double()
    standard_error = (covariance.diagonal() / chains).sqrt()
    assert ((found.mean(0) - mean).abs() < 4 * standard_error + 0.005).all()
    # 4 standard errors, and the bias of the step length: lr a/4 < 2 %.
    torch.testing.assert_close(
        found.t().cov().diagonal(), covariance.diagonal(), rtol=4 * math.sqrt(2 / chains) + 0.02, atol=0
    )
    assert found.t().cov()[0, 1].item() == pytest.approx(covariance[0, 1].item(), abs=0.05)


def test_a_falling_rate_falls_in_noise_too():
    w = nn.Parameter(torch.zeros(50_000))
    optimizer = SGLD([w], lr=0.04, num_data=1)
    optimizer.param_groups[0]["lr"] = 0.01
    w.grad = torch.zeros_like(w)
    optimizer.step()
    assert w.std().item() == pytest.approx(0.1, rel=0.02)


def test_collector():
    collector = SampleCollector(burn_in=3, thin=2, max_samples=3)
    vector = torch.zeros(2)
    kept = []
    for step in range(1, 13):
        vector += 1
        if collector.offer(step, vector):
            kept.append(step)
        if step == 4:
            with pytest.raises(UsageError, match="step 5"):
                collector.samples()
    assert kept == [5, 7, 9, 11]
    assert len(collector) == 3
    assert collector.samples().tolist() == [[7.0, 7.0], [9.0, 9.0], [11.0, 11.0]]
    other = SampleCollector(burn_in=3, thin=2, max_samples=3)
    other.restore(collector.state())
    assert other.offer(13, vector)
    assert len(collector) == len(other) == 3
    assert other.samples()[:, 0].tolist() == [9.0, 11.0, 12.0]
    assert collector.samples()[:, 0].tolist() == [7.0, 9.0, 11.0]


@pytest.mark.parametrize("numbers", [(-1, 1, None), (0, 0, None), (0, 1, 0)])
def test_wrong_collectors(numbers):
    with pytest.raises(UsageError, match="burn_in"):
        SampleCollector(*numbers)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_data": 0}, "num_data.*0"),
        ({"temperature": -1.0}, "temperature.*-1.0"),
        ({"lr": -1.0}, "learning rate.*-1.0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(UsageError, match=message):
        SGLD([nn.Parameter(torch.ones(1))], **{"lr": 0.1, "num_data": 10, **settings})
