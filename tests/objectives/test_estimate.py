"""Kinds of gradients: what each sees of q, of deterministic parameters, and at the optimum."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.objectives import kl_divergence
from posterity.objectives.estimate import frozen, sampled_kl
from posterity.posteriors import rho_of

NOISE, PRIOR_SD = 0.5, 0.8
KINDS = ("analytic", "total", "path", "score")


def optimum(rows=8):
    """A linear model of orthogonal inputs at its exact posterior, which is factorised."""
    torch.manual_seed(0)
    x = torch.linalg.qr(torch.randn(rows, 3).double()).Q * math.sqrt(rows)
    y = torch.randn(rows, 1).double()
    net = pt.bayesian(nn.Linear(3, 1, bias=False).double(), prior=pt.Gaussian(PRIOR_SD), seed=1)
    precision = rows / NOISE**2 + PRIOR_SD**-2
    with torch.no_grad():
        net.posterior.mean.copy_((x.T @ y / NOISE**2).squeeze(-1) / precision)
        net.posterior.rho.copy_(rho_of(torch.full((3,), precision**-0.5).double()))
    return net, x, y


def gradients(net, x, y, count, **options):
    rows = []
    for _ in range(count):
        net.zero_grad()
        pt.negative_elbo(net, pt.GaussianNoise(NOISE), x, y, num_data=len(x), **options).backward()
        rows.append(torch.cat([p.grad for p in net.posterior.parameters()]))
    return torch.stack(rows)


def test_path_has_no_variance_at_the_exact_posterior():
    net, x, y = optimum()
    assert gradients(net, x, y, 20, gradient="path").abs().max() < 1e-6  # the prior was made in single precision
    for kind in ("analytic", "total", "score"):
        assert gradients(net, x, y, 20, gradient=kind).var(0).sum() > 1e-3, kind


def test_path_has_less_variance_than_total_near_it():
    net, x, y = optimum()
    with torch.no_grad():
        net.posterior.mean += 0.02
        net.posterior.rho += 0.05
    path, total = (gradients(net, x, y, 200, gradient=kind).var(0).sum() for kind in ("path", "total"))
    assert path < 0.1 * total


def test_local_and_flipout_fall_with_the_batch():
    """Doubling the batch (the same rows twice) halves their nll gradient's variance; a sample's stays."""
    for estimator, expected in (("sample", 1.0), ("local", 0.5), ("flipout", 0.5)):
        net, x, y = optimum()
        options = {"estimator": estimator, "temperature": 0.0}
        once = gradients(net, x, y, 300, **options)[:, :3].var(0).sum()
        twice = gradients(net, torch.cat([x, x]), torch.cat([y, y]), 300, **options)[:, :3].var(0).sum()
        ratio = twice / once
        # Flipout shares |eps|, so that a part of its variance stays.
        assert ratio == pytest.approx(expected, rel=0.25) if estimator != "flipout" else ratio < 0.8


@pytest.mark.parametrize("kind", ["total", "path"])
def test_monte_carlo_kl_by_hand(kind):
    """w = mean + sd eps; p = prior precision; the gradient of log q - log prior in mean and rho."""
    net = pt.bayesian(nn.Linear(2, 1).double(), prior=pt.Gaussian(PRIOR_SD), rho=-1.0, seed=1)
    mean, sd = net.posterior.mean.detach(), net.posterior.sd.detach()
    eps = NoiseSource(4).normal((1, 3), mean)[0]
    net.noise_source = NoiseSource(4)
    x = torch.zeros(1, 2).double()
    loss = pt.negative_elbo(net, pt.GaussianNoise(1.0), x, torch.zeros(1, 1).double(), num_data=1, gradient=kind)
    loss.kl.backward()
    w, p = mean + sd * eps, PRIOR_SD**-2
    slope = torch.sigmoid(net.posterior.rho.detach())
    if kind == "total":
        by_mean, by_sd = p * w, p * w * eps - 1 / sd
    else:
        by_mean, by_sd = p * w - eps / sd, (p * w - eps / sd) * eps
    torch.testing.assert_close(net.posterior.mean.grad, by_mean)
    torch.testing.assert_close(net.posterior.rho.grad, by_sd * slope)
    q, prior = torch.distributions.Normal(mean, sd), torch.distributions.Normal(0.0, PRIOR_SD)
    torch.testing.assert_close(loss.kl.detach(), (q.log_prob(w) - prior.log_prob(w)).sum())


def test_score_by_hand():
    net, x, y = optimum()
    mean, sd = net.posterior.mean.detach(), net.posterior.sd.detach()
    eps = NoiseSource(4).normal((2, 3), mean)
    net.noise_source = NoiseSource(4)
    found = gradients(net, x, y, 1, gradient="score", samples=2, temperature=0.5, baseline="leave_one_out")[0]
    w = mean + sd * eps
    q, prior = torch.distributions.Normal(mean, sd), torch.distributions.Normal(0.0, PRIOR_SD)
    nll = -torch.distributions.Normal((x @ w.T), NOISE).log_prob(y).mean(0)
    cost = nll + 0.5 / len(x) * (q.log_prob(w) - prior.log_prob(w)).sum(-1)
    by_mean = eps / sd
    by_rho = (eps.square() - 1) / sd * torch.sigmoid(net.posterior.rho.detach())
    scores = torch.cat([by_mean, by_rho], dim=1)
    torch.testing.assert_close(found, ((cost - cost.flip(0)).unsqueeze(1) * scores).mean(0))


@pytest.mark.parametrize("kind", KINDS)
def test_deterministic_weights_and_learnt_noise_have_their_ordinary_gradient(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    net = pt.bayesian(model, rho=-2.0, seed=1, select="0.*")
    likelihood = pt.GaussianNoise("learnt").double()
    x, y = torch.randn(6, 3).double(), torch.randn(6, 1).double()
    loss = pt.negative_elbo(net, likelihood, x, y, num_data=6, gradient=kind, samples=2)
    loss.backward()
    net.noise_source = NoiseSource(1)
    with torch.no_grad():
        weights = net.draw(2)
    parameters = [net.model[2].weight, net.model[2].bias, likelihood.rho]
    expected = torch.autograd.grad(likelihood.nll(net.outputs(x, weights=weights), y), parameters)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_sampled_kl_averages_to_the_kl():
    net = pt.bayesian(nn.Linear(3, 2).double(), rho=-1.0, seed=1)
    with torch.no_grad():
        values = sampled_kl(net.posterior, net.prior, net.draw(4000))
        assert values.mean().item() == pytest.approx(kl_divergence(net.posterior, net.prior).item(), rel=0.02)


def test_a_frozen_posterior_has_no_gradient_and_the_same_density():
    net = pt.bayesian(nn.Linear(3, 2), rho=-1.0, seed=1)
    w = net.draw(2).detach()
    copied = frozen(net.posterior)
    torch.testing.assert_close(copied.log_density(w), net.posterior.log_density(w).detach())
    assert not copied.log_density(w).requires_grad
    assert net.posterior.log_density(w).requires_grad


@pytest.mark.parametrize("estimator", ["sample", "local", "flipout"])
def test_point_posteriors_have_one_gradient(estimator):
    net = pt.bayesian(nn.Linear(3, 2), posterior="point", seed=1)
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    losses = [pt.negative_elbo(net, pt.Categorical(), x, y, num_data=4, estimator=e) for e in ("sample", estimator)]
    assert losses[0].item() == losses[1].item()
    with pytest.raises(UsageError, match="no density"):
        pt.negative_elbo(net, pt.Categorical(), x, y, num_data=4, estimator="sample", gradient="path")


def test_temperature_zero_with_underflown_sds():
    for kind in ("analytic", "total", "path"):
        net = pt.bayesian(nn.Linear(3, 2), rho=-200.0, seed=1)
        x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
        pt.negative_elbo(net, pt.Categorical(), x, y, num_data=4, gradient=kind, temperature=0.0).backward()
        assert all(p.grad.isfinite().all() for p in net.posterior.parameters()), kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "flipot"}, "Did you mean 'flipout'"),
        ({"gradient": "paht"}, "Did you mean 'path'"),
        ({"gradient": "score", "baseline": "moveing"}, "Did you mean 'moving'"),
        ({"gradient": "score", "estimator": "local"}, "other weights for each example"),
        ({"gradient": "path", "baseline": "leave_one_out"}, "is for gradient 'score'"),
        ({"gradient": "score", "baseline": "leave_one_out"}, "at least 2"),
        ({"gradient": "score", "baseline": "moving"}, "MovingBaseline"),
    ],
)
def test_errors(options, message):
    net, x, y = optimum()
    with pytest.raises(UsageError, match=message):
        pt.negative_elbo(net, pt.GaussianNoise(1.0), x, y, num_data=8, **options)
    if "MovingBaseline" not in message:
        with pytest.raises(UsageError, match=message):
            pt.fit(net, (x, y), epochs=1, **options)
