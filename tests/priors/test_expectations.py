"""Expectations of log priors under a Gaussian: closed forms, narrow spikes and far tails."""

import math

import pytest
import torch
from torch.distributions import Normal

from posterity.objectives import kl_divergence
from posterity.posteriors import MeanField, rho_of
from posterity.priors import FlatMixture, FlatStudentT
from posterity.priors.expectations import expected_abs, expected_norm


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_expected_norm_against_closed_forms():
    """A centred group of equal sds: sd sqrt(2) Gamma((d+1)/2) / Gamma(d/2); one weight: the folded normal; sd 0."""
    for d in (2, 3, 10, 300):
        sd = torch.full((1, d), 0.7).double()
        exact = 0.7 * math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        assert expected_norm(torch.zeros(1, d).double(), sd).item() == pytest.approx(exact, rel=1e-6)
    mean, sd = randn(50, 1), randn(50, 1, seed=1).abs()
    torch.testing.assert_close(expected_norm(mean, sd), expected_abs(mean, sd).squeeze(-1), rtol=1e-5, atol=1e-6)
    mean = randn(5, 4)
    torch.testing.assert_close(expected_norm(mean, 0 * mean), mean.norm(dim=-1), rtol=1e-6, atol=0)
    torch.testing.assert_close(expected_abs(mean, 0 * mean), mean.abs())


def test_mean_field_kl_to_a_spike_far_narrower_than_q():
    """Nodes of a Gauss-Hermite rule would step over it: 0.7 of the mass at a spike a thousand times narrower."""
    q = MeanField(torch.zeros(1).double(), rho_of(torch.ones(1).double()))
    prior = FlatMixture(torch.ones(1).double(), torch.full((1,), 1e-3, dtype=torch.float64), pi=0.3)
    w = torch.linspace(-0.02, 0.02, 400_001, dtype=torch.float64)
    spike = torch.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
    gain = prior.log_density_by_weight(w.unsqueeze(-1))[:, 0] - (math.log(0.3) + Normal(0.0, 1.0).log_prob(w))
    brute = -math.log(0.3) - torch.trapezoid(spike * gain, w)
    assert kl_divergence(q, prior).item() == pytest.approx(brute.item(), abs=1e-7)


def monte_carlo(prior, mean, sd, draws=400_000):
    """E log prior (N,) and its standard error."""
    values = prior.log_density_by_weight(mean + sd * randn(draws, len(mean)))
    return values.mean(0), values.std(0) / math.sqrt(draws)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("mean", "sd"), [(0.1496, 1e-4), (0.15, 0.1), (1e4, 1e4), (0.0, 1e6), (3.0, 1e-8)])
@pytest.mark.parametrize("df", [2.1, 4.0])
def test_expectation_of_student_t_far_out_in_its_tails(df, mean, sd, dtype):
    prior = FlatStudentT(torch.tensor([1e-6, 1.0], dtype=torch.float64), df=df)
    at = torch.full((2,), mean, dtype=torch.float64), torch.full((2,), sd, dtype=torch.float64)
    expected, error = monte_carlo(prior, *at)
    found = prior.to(dtype).expected_log_density(*(v.to(dtype) for v in at)).double()
    assert ((found - expected).abs() < 5 * error + 1e-4 * expected.abs()).all()


def test_slope_of_student_t_far_out_is_that_of_a_power():
    prior = FlatStudentT(torch.tensor([1e-6], dtype=torch.float64))
    mean = torch.tensor([0.15], dtype=torch.float64, requires_grad=True)
    prior.expected_log_density(mean, torch.tensor([1e-4], dtype=torch.float64)).sum().backward()
    assert mean.grad.item() == pytest.approx(-5 / 0.15, rel=1e-4)  # -(df + 1) / w


def test_expected_norm_of_large_groups_in_single_precision():
    mean, sd = 0.01 * randn(3, 5000), torch.full((3, 5000), 0.007, dtype=torch.float64)
    torch.testing.assert_close(
        expected_norm(mean.float(), sd.float()).double(), expected_norm(mean, sd), rtol=1e-6, atol=0
    )
