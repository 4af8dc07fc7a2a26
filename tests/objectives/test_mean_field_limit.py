"""Against quadrature, brute-force sampling, and the laws of source 002."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.models import mean_field, mlp
from posterity.models.mlp import ACTIVATIONS
from posterity.objectives import elbo_gap, exact_elbo, limit_functional, negative_elbo, output_moments
from posterity.objectives.mean_field_limit import activation_moments


def mean_field_network(width=16, inputs=3, outputs=2, *, activation="relu", sd=0.5, seed=0, **options):
    torch.manual_seed(seed)
    model = mean_field((inputs,), outputs, hidden=(width,), activation=activation).double()
    return pt.bayesian(model, prior=math.sqrt(0.2), relative_sd=sd, seed=seed, **options)


def data(n=7, inputs=3, outputs=2):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, inputs, generator=generator, dtype=torch.float64)
    return x, torch.randn(n, outputs, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(
    ("mean", "sd"), [(0.0, 1.0), (1.3, 0.2), (-2.0, 0.7), (-6.0, 0.5), (0.4, 1e-3), (3.0, 5.0), (1.0, 20.0)]
)
def test_activation_moments_against_integration(name, mean, sd):
    activation = ACTIVATIONS[name]()

    def integrand(z, power):
        value = activation(torch.tensor(mean + sd * z, dtype=torch.float64)).item()
        return value**power * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

    kink = [point for point in (-mean / sd,) if -12 < point < 12]
    expected = [integrate.quad(integrand, -12, 12, args=(k,), points=kink or None, limit=200)[0] for k in (1, 2)]
    found = activation_moments(
        activation, torch.tensor(mean, dtype=torch.float64), torch.tensor(sd, dtype=torch.float64)
    )
    assert [v.item() for v in found] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_output_moments_against_sampling(activation):
    net, (x, _) = mean_field_network(activation=activation), data()
    with torch.no_grad():
        mean, variance = output_moments(net, x)
        outputs = net.outputs(x, samples=20_000)
    error = variance.sqrt() / math.sqrt(len(outputs))
    assert ((outputs.mean(0) - mean).abs() < 5 * error).all()
    torch.testing.assert_close(outputs.var(0), variance, rtol=0.06, atol=0)


def test_an_input_of_zeros_has_moments_and_gradients():
    net, (x, y) = mean_field_network(), data()
    mean, variance = output_moments(net, 0 * x)
    assert torch.cat([mean, variance]).abs().max() < 1e-100
    exact_elbo(net, pt.GaussianNoise(0.3, num_targets=2), 0 * x, y, temperature=1.0).backward()
    assert all(p.grad.isfinite().all() for p in net.posterior.parameters())


def test_gaussian_gap_by_its_definition():
    """elbo = the mean of many negative ELBOs; limit by hand from the expected outputs; gap = sum Var f / 2 s^2."""
    net, (x, y) = mean_field_network(), data()
    likelihood, eta, s = pt.GaussianNoise(0.3, num_targets=2), 0.7, 0.3
    found = elbo_gap(net, likelihood, x, y, temperature=eta)
    with torch.no_grad():
        mean, variance = output_moments(net, x)
        kl = pt.kl_divergence(net.posterior, net.prior)
        fit = -((y - mean).square() / (2 * s**2) + math.log(s) + 0.5 * math.log(2 * math.pi)).sum()
        loss = negative_elbo(net, likelihood, x, y, num_data=len(x), temperature=eta, samples=8000)
    assert found.limit == pytest.approx((fit - eta * kl).item())
    assert found.gap == pytest.approx((variance / (2 * s**2)).sum().item())
    assert found.standard_error == 0
    assert found.elbo == pytest.approx(found.limit - found.gap)
    assert found.elbo == pytest.approx(exact_elbo(net, likelihood, x, y, temperature=eta).item())
    assert found.elbo == pytest.approx(-len(x) * loss.total.item(), rel=0.02)


def test_sampled_gap_agrees_with_the_closed_form():
    """Input-dependent noise that is constant (its outputs have zero weights) is sampled, and known exactly."""
    net, (x, y) = mean_field_network(outputs=4), data()
    with torch.no_grad():
        views = [net.layout.views(p) for p in (net.posterior.mean, net.posterior.rho)]
        views[0]["outer.weight"][2:] = 0
        views[1]["outer.weight"][2:] = -60
    sd = math.log(2) + 1e-3  # softplus(0) + MIN_SD
    sampled = elbo_gap(net, pt.GaussianNoise("input", num_targets=2), x, y, temperature=1.0, samples=2000)
    _, variance = output_moments(net, x)
    exact = (variance[:, :2] / (2 * sd**2)).sum().item()
    assert sampled.gap == pytest.approx(exact, abs=4 * sampled.standard_error)
    assert 0 < sampled.standard_error < 0.05 * exact


def test_categorical_gap_against_plain_sampling():
    net, (x, _) = mean_field_network(outputs=3, width=8, sd=1.0), data()
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    found = elbo_gap(net, pt.Categorical(), x, y, temperature=0.5, samples=1000)
    with torch.no_grad():
        losses = -pt.Categorical().log_prob(net.outputs(x, samples=10_000), y).sum(1)
        inside = pt.Categorical().nll(output_moments(net, x)[0].unsqueeze(0), y) * len(x)
    plain, error = (losses.mean() - inside).item(), losses.std().item() / 100
    assert found.gap > 0
    assert found.gap == pytest.approx(plain, abs=4 * (error + found.standard_error))
    assert found.standard_error < error * math.sqrt(10)  # the control variate pays: less than plain with 1000 samples
    assert elbo_gap(net, pt.Categorical(), x, y, temperature=0.5, samples=1000) == found  # the seed decides


@pytest.mark.parametrize("likelihood", [pt.GaussianNoise(0.5, num_targets=2), pt.Categorical()])
def test_the_gap_falls_like_one_over_the_width(likelihood):
    """K2 for repeated neurons, where nu is the same at each width and the law is exact (or nearly so)."""
    x, y = data()
    if isinstance(likelihood, pt.Categorical):
        y = torch.tensor([0, 1, 0, 1, 1, 0, 0])
    small, gaps = mean_field_network(width=4), []
    for times in (1, 4, 16):
        net = mean_field_network(width=4 * times)
        with torch.no_grad():
            for ours, theirs in ((net.posterior.mean, small.posterior.mean), (net.posterior.rho, small.posterior.rho)):
                views, kept = net.layout.views(ours), small.layout.views(theirs)
                views["inner.weight"].copy_(kept["inner.weight"].repeat(times, 1))
                views["outer.weight"].copy_(kept["outer.weight"].repeat(1, times))
        found = elbo_gap(net, likelihood, x, y, temperature=pt.per_neuron(0.3).bind(net, len(x))(0), samples=4000)
        gaps.append(found.gap * times)
        if times == 1:
            first = found.limit
        assert found.limit == pytest.approx(first)  # with eta = tau p / N the limit does not depend on N
    tolerance = 1e-9 if isinstance(likelihood, pt.GaussianNoise) else 0.1
    assert gaps == pytest.approx([gaps[-1]] * 3, rel=tolerance)


def test_the_gap_does_not_depend_on_temperature_and_vanishes_with_the_spread():
    x, y = data()
    likelihood = pt.GaussianNoise(0.5, num_targets=2)
    net = mean_field_network()
    assert elbo_gap(net, likelihood, x, y, temperature=0.1).gap == elbo_gap(net, likelihood, x, y, temperature=9.0).gap
    gaps = [elbo_gap(mean_field_network(sd=sd), likelihood, x, y, temperature=1.0).gap for sd in (1e-1, 1e-2, 1e-3)]
    assert gaps == pytest.approx([gaps[0], gaps[0] / 100, gaps[0] / 10_000], rel=0.05)


def test_a_part_of_the_data_is_scaled_up():
    net, (x, y) = mean_field_network(), data()
    likelihood = pt.GaussianNoise("learnt", num_targets=2).double()
    whole = elbo_gap(net, likelihood, x.repeat(3, 1), y.repeat(3, 1), temperature=0.5)
    part = elbo_gap(net, likelihood, x, y, num_data=21, temperature=0.5)
    assert (part.elbo, part.limit, part.gap) == pytest.approx((whole.elbo, whole.limit, whole.gap))


def test_the_functionals_are_differentiable():
    net, (x, y) = mean_field_network(width=3), data(n=2)
    likelihood = pt.GaussianNoise(0.5, num_targets=2)
    for functional in (limit_functional, exact_elbo):
        net.zero_grad()
        functional(net, likelihood, x, y, temperature=0.4).backward()
        for parameter in net.posterior.parameters():
            grad, step = parameter.grad[5].item(), 1e-5
            with torch.no_grad():
                values = []
                for sign in (1, -2):
                    parameter[5] += sign * step
                    values.append(functional(net, likelihood, x, y, temperature=0.4).item())
                parameter[5] += step
            assert grad == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_other_networks_and_likelihoods_are_refused():
    x, y = data()
    likelihood = pt.GaussianNoise(0.5, num_targets=2)
    with pytest.raises(UsageError, match=r"mean-field network.*Sequential"):
        output_moments(pt.bayesian(mlp((3,), 2).double()), x)
    with pytest.raises(UsageError, match="point"):
        output_moments(mean_field_network(sd=None, posterior="point"), x)
    with pytest.raises(UsageError, match="all its weights"):
        output_moments(mean_field_network(select="outer.*"), x)
    with pytest.raises(UsageError, match=r"closed form.*categorical"):
        exact_elbo(mean_field_network(), pt.Categorical(), x, torch.zeros(7, dtype=torch.int64), temperature=1.0)
    with pytest.raises(UsageError, match="at least 2"):
        elbo_gap(
            mean_field_network(), pt.Categorical(), x, torch.zeros(7, dtype=torch.int64), temperature=1.0, samples=1
        )
    assert np.isfinite(elbo_gap(mean_field_network(), likelihood, x, y, temperature=1.0).elbo)
    assert isinstance(mean_field_network().model.activation, nn.ReLU)
