"""What every prior must do."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import posterity as pt
from posterity.core.layout import Layout
from posterity.objectives import kl_by_weight, kl_divergence
from posterity.posteriors import MeanField, Point
from posterity.priors import PRIORS as REGISTERED
from posterity.priors import (
    SCALES,
    FromDistribution,
    FromPenalty,
    Gaussian,
    Laplace,
    Parts,
    ScaleMixture,
    StudentT,
    Tabulated,
)

MODEL = nn.Sequential(nn.Conv1d(2, 3, 2), nn.LayerNorm(3), nn.Flatten(), nn.Linear(6, 1))
LAYOUT = Layout.of(MODEL)
WEIGHTS = 0.5 * torch.randn(LAYOUT.num_weights, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
GRID = np.linspace(-6, 8, 1401)
TWO_HILLS = np.logaddexp(-((GRID - 1.5) ** 2), -2 * (GRID + 1) ** 2)
HILLS = torch.distributions.MixtureSameFamily(
    torch.distributions.Categorical(torch.tensor([0.4, 0.6])),
    torch.distributions.Normal(torch.tensor([-1.0, 1.0]), torch.tensor([0.6, 0.8])),
)
PRIORS = {
    **{f"gaussian {rule}": Gaussian(rule) for rule in SCALES},
    "gaussian number": Gaussian(0.3),
    "gaussian centred": Gaussian(0.3, mean=-0.5),
    "gaussian pretrained": Gaussian("kaiming", mean="pretrained"),
    "laplace": Laplace("kaiming"),
    "laplace centred": Laplace(0.3, mean="pretrained"),
    "student_t": StudentT("kaiming"),
    "student_t centred": StudentT(0.3, df=7, mean=0.5),
    "mixture": ScaleMixture(0.25, "kaiming", 0.1),
    "mixture, spike first": ScaleMixture(0.5, 0.02, 1.0),
    "mixture centred": ScaleMixture(0.5, 1.0, 0.3, mean="pretrained"),
    "tabulated": Tabulated(GRID, -0.5 * GRID**2 - 0.05 * GRID**4, "kaiming"),
    "tabulated, two hills": Tabulated(GRID, TWO_HILLS),
    "distribution, two hills": FromDistribution(HILLS),
    "penalty l2": FromPenalty("l2"),
    "penalty l1": FromPenalty("l1", 3.0),
    "penalty rows": FromPenalty("group_lasso_rows"),
    "penalty columns": FromPenalty("group_lasso_columns", 0.5),
    "parts": Parts({"0.*": Laplace(0.1), "3.weight": FromPenalty("group_lasso_rows"), "*": Gaussian("kaiming")}),
}
FACTORISED = [n for n, rule in PRIORS.items() if rule.bind(LAYOUT, WEIGHTS).factorised]
SMOOTH_AND_ONE_HILL = [n for n in FACTORISED if "laplace" not in n and "l1" not in n and "hills" not in n]
EVERY = pytest.mark.parametrize("name", PRIORS)
EACH_FACTORISED = pytest.mark.parametrize("name", FACTORISED)


def bind(name, weights=WEIGHTS):
    return PRIORS[name].bind(LAYOUT, weights)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def steps(prior, reach=60.0, count=12_001):
    """Points (count, N) that are dense near each weight's mean and reach far out, and their trapezoidal weights."""
    s = torch.linspace(-1, 1, count, dtype=torch.float64).unsqueeze(-1)
    z, dz = reach * torch.sinh(8 * s) / math.sinh(8), 8 * reach * torch.cosh(8 * s) / math.sinh(8)
    return prior.mean + prior.sd * z, dz * prior.sd * (2 / (count - 1))


def test_every_kind_is_here():
    assert {bind(name).kind for name in PRIORS} == set(REGISTERED)


@EVERY
def test_samples_match_the_moments(name):
    prior = bind(name)
    weights = prior.sample(noise(4000, len(WEIGHTS)))
    assert ((weights.mean(0) - prior.mean).abs() < 5 * prior.sd / math.sqrt(4000)).all()
    heavy = name == "student_t"  # df 4: the variance's own estimate has no variance
    torch.testing.assert_close(weights.std(0), prior.sd.expand(len(WEIGHTS)), rtol=0.3 if heavy else 0.12, atol=0)


@EACH_FACTORISED
def test_density_integrates_to_one_with_its_mean_and_sd(name):
    prior = bind(name)
    points, widths = steps(prior, reach=1000)
    density = prior.log_density_by_weight(points).exp() * widths
    ones = torch.ones(len(WEIGHTS), dtype=torch.float64)
    torch.testing.assert_close(density.sum(0), ones, rtol=1e-5, atol=0)
    mean = (density * (points - prior.mean)).sum(0)
    torch.testing.assert_close(mean / prior.sd, 0 * ones, rtol=0, atol=1e-4)
    # A Student-t with df 4 has a part of 3e-6 of its variance beyond 1000 sd.
    variance = (density * (points - prior.mean).square()).sum(0)
    torch.testing.assert_close(variance.sqrt(), prior.sd.expand(len(WEIGHTS)), rtol=1e-4, atol=0)


@EACH_FACTORISED
def test_samples_follow_the_distribution_function(name):
    """Kolmogorov-Smirnov, and exactly: the sample at noise e has probability Phi(e) below it."""
    prior = bind(name)
    points, widths = steps(prior, reach=1000)
    density = (prior.log_density_by_weight(points).exp() * widths).numpy()
    below = np.cumsum(density, 0) - density / 2
    for column in (0, len(WEIGHTS) - 1):

        def cdf(w, column=column):
            return np.interp(w, points[:, column].numpy(), below[:, column])

        weights = prior.sample(noise(1000, len(WEIGHTS), seed=3))[:, column].numpy()
        assert stats.kstest(weights, cdf).pvalue > 1e-3
        at = torch.tensor([-3.5, -1.0, 0.0, 0.3, 2.0, 4.0], dtype=torch.float64)
        quantiles = prior.sample(at.unsqueeze(-1).expand(-1, len(WEIGHTS)))[:, column].numpy()
        np.testing.assert_allclose(cdf(quantiles), stats.norm.cdf(at.numpy()), rtol=2e-3, atol=2e-5)


@EVERY
def test_one_sample_is_a_row_of_many(name):
    prior, eps = bind(name), noise(3, len(WEIGHTS))
    many = prior.sample(eps)
    assert all(torch.allclose(prior.sample(eps[i]), many[i], rtol=1e-12, atol=0) for i in range(3))


@EVERY
def test_shares_sum_to_the_whole(name):
    prior = bind(name)
    weights = noise(3, len(WEIGHTS))
    assert prior.log_density(weights).shape == (3,)
    torch.testing.assert_close(prior.log_density_by_weight(weights).sum(-1), prior.log_density(weights))


@pytest.mark.parametrize("name", SMOOTH_AND_ONE_HILL)
def test_is_densest_at_its_mean(name):
    prior = bind(name)
    at_mean = prior.mean.expand(len(WEIGHTS)).clone().requires_grad_()
    slope = torch.autograd.grad(prior.log_density(at_mean), at_mean)[0]
    assert slope.abs().max() < 1e-9
    assert prior.log_density(at_mean) > prior.log_density(at_mean + 0.1)


@EVERY
def test_gradient_of_the_density(name):
    prior = bind(name)
    weights = (prior.mean + prior.sd * noise(len(WEIGHTS))).detach().requires_grad_()
    assert torch.autograd.gradcheck(prior.log_density, weights, atol=1e-4)
    assert torch.autograd.gradcheck(lambda w: prior.energy_by_weight(w).sum(), weights, atol=1e-4)


def posterior(prior):
    """Some weights far narrower than the prior, some as wide, some wider."""
    n = len(WEIGHTS)
    sd = prior.sd * torch.logspace(-3, 0.5, n, dtype=torch.float64)
    return MeanField(prior.mean + prior.sd * 1.5 * noise(n, seed=1), torch.log(torch.expm1(sd)))


@EACH_FACTORISED
def test_kl_is_the_integral(name):
    prior = bind(name)
    q = posterior(prior)
    z = torch.linspace(-12, 12, 48_001, dtype=torch.float64).unsqueeze(-1)
    mass = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi) * (24 / 48_000)
    brute = torch.zeros(len(WEIGHTS), dtype=torch.float64)
    with torch.no_grad():
        log_q = -0.5 * z.square() - q.sd.log() - 0.5 * math.log(2 * math.pi)
        for part in range(0, len(z), 8000):
            rows = slice(part, part + 8000)
            gap = log_q[rows] - prior.log_density_by_weight(q.mean + q.sd * z[rows])
            brute += (mass[rows] * gap).sum(0)
        kl = kl_by_weight(q, prior)
    # Gauss-Hermite steps over details of a density, two hills or those of a table, where q is wider than they are.
    wide = (q.sd > prior.sd).detach()
    torch.testing.assert_close(kl[~wide], brute[~wide], rtol=0, atol=2e-3 if "tabulated" in name else 1e-6)
    torch.testing.assert_close(
        kl[wide], brute[wide], rtol=0, atol=3e-2 if "tabulated" in name or "hills" in name else 1e-5
    )
    assert (kl > -1e-6).all()


@EVERY
def test_kl_is_the_mean_over_samples(name):
    """Also where weights are dependent: log q - log prior, averaged."""
    prior = bind(name)
    q = posterior(prior)
    with torch.no_grad():
        weights = q.sample(noise(20_000, len(WEIGHTS), seed=2))
        gaps = q.log_density(weights) - prior.log_density(weights)
        kl = kl_divergence(q, prior)
    assert kl > 0
    assert (kl - gaps.mean()).abs() < 5 * gaps.std() / math.sqrt(20_000)


@EVERY
def test_gradient_of_the_kl(name):
    prior = bind(name)
    q = posterior(prior)
    mean, sd = (v.detach().clone().requires_grad_() for v in (q.mean, q.sd))
    assert torch.autograd.gradcheck(
        lambda mean, sd: prior.expected_log_density(mean, sd).sum(), (mean, sd), eps=1e-7, atol=1e-3, rtol=1e-3
    )
    expected = torch.autograd.grad(-prior.expected_log_density(mean, sd).sum() - sd.log().sum(), (mean, sd))
    grads = torch.autograd.grad(kl_divergence(q, prior), [q.mean, q.rho])
    torch.testing.assert_close(grads, (expected[0], expected[1] * q.rho.sigmoid()))


@EVERY
def test_kl_of_a_point_differs_from_minus_log_prior_by_a_constant(name):
    prior = bind(name)
    gaps = [kl_divergence(Point(w), prior) + prior.log_density(w) for w in noise(3, len(WEIGHTS))]
    torch.testing.assert_close(gaps[0], gaps[1])
    torch.testing.assert_close(gaps[0], gaps[2])


@EVERY
def test_memory_is_bounded_without_a_change(name, monkeypatch):
    prior = bind(name)
    q = posterior(prior)
    whole = kl_divergence(q, prior)
    grads = torch.autograd.grad(whole, list(q.parameters()))
    monkeypatch.setattr("posterity.priors.expectations.CHUNK", 300)  # a few weights at a time
    again = kl_divergence(q, prior)
    torch.testing.assert_close(again, whole)
    for a, b in zip(torch.autograd.grad(again, list(q.parameters())), grads, strict=True):
        torch.testing.assert_close(a, b)


@EVERY
def test_state_and_copies(name):
    prior, other = bind(name), copy.deepcopy(bind(name))
    for buffer in other.buffers():
        buffer += 1
    assert not torch.allclose(other.log_density(WEIGHTS), prior.log_density(WEIGHTS))
    other.load_state_dict(prior.state_dict())
    assert torch.equal(other.log_density(WEIGHTS), prior.log_density(WEIGHTS))
    assert not list(prior.parameters())


@EVERY
def test_saved_and_loaded(name, tmp_path):
    net = pt.bayesian(MODEL, prior=PRIORS[name], rho=-3.0)
    pt.save(net, tmp_path / "net")
    prior = pt.load(tmp_path / "net", MODEL).prior
    assert type(prior) is type(net.prior)
    weights, eps = net.posterior.mean.detach(), noise(2, net.num_weights).float()
    assert torch.equal(prior.log_density_by_weight(weights), net.prior.log_density_by_weight(weights))
    assert torch.equal(prior.sample(eps), net.prior.sample(eps))
    assert torch.equal(prior.sd, net.prior.sd)
    assert prior.options() == net.prior.options()


@EVERY
def test_follows_the_weights_precision(name):
    prior = bind(name, WEIGHTS.float())
    assert prior.sd.dtype == prior.log_density(WEIGHTS.float()).dtype == torch.float32
    assert prior.sample(noise(2, len(WEIGHTS)).float()).dtype == torch.float32
    mean = WEIGHTS.float()
    assert prior.expected_log_density(mean, 0.1 * torch.ones_like(mean)).dtype == torch.float32
    assert prior.double().log_density(WEIGHTS).dtype == torch.float64
