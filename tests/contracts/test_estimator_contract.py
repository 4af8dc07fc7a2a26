"""Every estimator and every kind of gradient has the exact gradient as its expectation.

Linear regression with known noise s, q = N(mean, sd^2), prior N(0, p^2), n rows of num_data:
    E nll  = mean_i [ ((y_i - x_i mean)^2 + x_i^2 sd^2) / (2 s^2) ] + const
    kl     = sum [ (sd^2 + mean^2) / (2 p^2) - log sd ] + const
"""

import pytest
import torch
from torch.nn import functional as F

import posterity as pt
from posterity.core.randomness import NoiseSource
from posterity.estimators import ESTIMATORS
from posterity.objectives import BASELINES, GRADIENTS

NOISE, PRIOR_SD, NUM_DATA, TEMPERATURE, KL_WEIGHT = 0.7, 0.8, 20, 0.6, 1.5
KINDS = [
    (estimator, gradient, baseline, samples)
    for estimator in ESTIMATORS
    for gradient in GRADIENTS
    for baseline in (None, *BASELINES)
    for samples in (1, 3)
    if (gradient == "score" or baseline is None)
    and not (gradient == "score" and estimator != "sample")
    and not (baseline == "leave_one_out" and samples == 1)
]


def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, generator=g, dtype=torch.float64)
    return x, x @ torch.tensor([[1.0, 0.5], [-0.5, 0.2], [0.3, -1.0]]).double() + 0.3


@pytest.fixture
def linear(network):
    """A linear map for targets of two dimensions, each weight with an sd of its own."""

    def build():
        net = network(width=None, dtype=torch.float64, prior=pt.Gaussian(PRIOR_SD))
        with torch.no_grad():
            net.posterior.rho.copy_(torch.linspace(-2.0, 0.5, net.num_weights))
        return net

    return build


def exact_gradient(net):
    """By autograd of the closed form above."""
    x, y = data()
    mean, rho = (p.detach().clone().requires_grad_() for p in (net.posterior.mean, net.posterior.rho))
    sd = F.softplus(rho)
    m, s = net.layout.views(mean), net.layout.views(sd)
    error = y - x @ m["weight"].T - m["bias"]
    variance = x.square() @ s["weight"].square().T + s["bias"].square()
    nll = ((error.square() + variance) / (2 * NOISE**2)).sum(1).mean()
    kl = ((sd.square() + mean.square()) / (2 * PRIOR_SD**2) - sd.log()).sum()
    (nll + TEMPERATURE * KL_WEIGHT * kl / NUM_DATA).backward()
    return torch.cat([mean.grad, rho.grad])


def draws(net, count, seed=0, **options):
    """Gradients (count, 2 N) of the mean and rho, each from a new draw."""
    net.noise_source = NoiseSource(seed)
    x, y = data()
    rows = []
    for _ in range(count):
        net.zero_grad()
        pt.negative_elbo(
            net,
            pt.GaussianNoise(NOISE),
            x,
            y,
            num_data=NUM_DATA,
            temperature=TEMPERATURE,
            kl_weight=KL_WEIGHT,
            **options,
        ).backward()
        rows.append(torch.cat([net.posterior.mean.grad, net.posterior.rho.grad]))
    return torch.stack(rows)


@pytest.mark.parametrize(("estimator", "gradient", "baseline", "samples"), KINDS)
def test_unbiased(linear, estimator, gradient, baseline, samples):
    net = linear()
    kept = pt.MovingBaseline() if baseline == "moving" else baseline
    found = draws(net, 400 // samples, estimator=estimator, gradient=gradient, baseline=kept, samples=samples)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - exact_gradient(net)).abs() < 4 * error + 1e-12).all()


@pytest.mark.parametrize(("estimator", "gradient", "baseline", "samples"), KINDS)
def test_value_and_gradient_agree(linear, estimator, gradient, baseline, samples):
    """`backward` is the gradient of `total`; its value is the sum of its parts."""
    gradients = []
    for whole in (False, True):
        net = linear()
        kept = pt.MovingBaseline() if baseline == "moving" else baseline
        loss = pt.negative_elbo(
            net, pt.GaussianNoise(NOISE), *data(), num_data=NUM_DATA, temperature=TEMPERATURE, samples=samples,
            estimator=estimator, gradient=gradient, baseline=kept,
        )  # fmt: skip
        (loss.total if whole else loss).backward()
        gradients.append(torch.cat([net.posterior.mean.grad, net.posterior.rho.grad]))
        assert loss.outputs.shape == (samples, 6, 2)
        torch.testing.assert_close(loss.total, loss.nll + TEMPERATURE * loss.kl / NUM_DATA)
        torch.testing.assert_close(sum(loss.kl_by_layer.values()), loss.kl.detach())
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_same_seed_gives_the_same_bits(linear, estimator):
    first, second, other = (draws(linear(), 2, seed=seed, estimator=estimator) for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_less_variance_than_sample(linear, estimator):
    """At a large sd, and a batch of several rows: the noise of the examples averages out."""
    variance = {e: draws(linear(), 250, estimator=e).var(0).sum() for e in ("sample", estimator)}
    assert variance[estimator] < 0.8 * variance["sample"]


def test_a_baseline_lowers_the_scores_variance(linear):
    options = {"gradient": "score", "samples": 4}
    plain = draws(linear(), 200, **options).var(0).sum()
    for baseline in (pt.MovingBaseline(), "leave_one_out"):
        assert draws(linear(), 200, baseline=baseline, **options).var(0).sum() < 0.7 * plain
