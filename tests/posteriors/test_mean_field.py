import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.posteriors import MeanField, Point, rho_of


def mean_field(n=6, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    return MeanField(torch.randn(n, generator=g, dtype=dtype), torch.randn(n, generator=g, dtype=dtype) - 1)


def test_sample_by_hand():
    q = MeanField(torch.tensor([1.0, -2.0]), torch.tensor([0.0, math.log(math.expm1(3.0))]))
    assert q.sd.tolist() == pytest.approx([math.log(2), 3])
    noise = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    expected = torch.tensor([[1.0, -2.0], [1 + math.log(2), -5.0]])
    assert torch.allclose(q.sample(noise), expected)
    assert torch.allclose(q.sample(noise[1]), expected[1])
    assert torch.allclose(q.variance(), torch.tensor([math.log(2) ** 2, 9.0]))
    assert q.num_weights == 2


def test_log_density_and_entropy_agree_with_torch():
    q = mean_field()
    normal = Normal(q.mean, q.sd)
    weights = torch.randn(5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(q.log_density(weights), normal.log_prob(weights).sum(-1))
    torch.testing.assert_close(q.log_density(weights[0]), normal.log_prob(weights[0]).sum())
    torch.testing.assert_close(q.entropy(), normal.entropy().sum())


def test_gradients_agree_with_torch():
    q = mean_field()
    noise = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = torch.autograd.grad(q.log_density(q.sample(noise)).sum() + q.entropy(), [q.mean, q.rho], allow_unused=True)
    normal = Normal(q.mean, F.softplus(q.rho))
    theirs = normal.log_prob(normal.loc + normal.scale * noise).sum() + normal.entropy().sum()
    theirs = torch.autograd.grad(theirs, [q.mean, q.rho], allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_small_sd_tends_to_the_point():
    mean = mean_field().mean
    noise = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    q = MeanField(mean, torch.full_like(mean, -40))
    torch.testing.assert_close(q.sd, torch.full_like(mean, math.exp(-40)))
    torch.testing.assert_close(q.sample(noise), Point(mean).sample(noise), atol=1e-16, rtol=1e-14)


@settings(deadline=None, max_examples=200)
@given(st.floats(-80, 8).map(math.exp), st.sampled_from([torch.float32, torch.float64]))
def test_rho_of_inverts_softplus(sd, dtype):
    sd = torch.tensor([sd], dtype=dtype)
    rho = rho_of(sd)
    assert torch.isfinite(rho).all()
    # rho near -80 is rounded to 1e-7 of itself, which is 1e-5 of exp(rho).
    torch.testing.assert_close(F.softplus(rho), sd, rtol=2e-5 if dtype == torch.float32 else 1e-7, atol=0)


@settings(deadline=None, max_examples=100)
@given(st.floats(-60, 100))
def test_softplus_inverts_rho_of(rho):
    rho = torch.tensor([rho], dtype=torch.float64)
    torch.testing.assert_close(rho_of(F.softplus(rho)), rho, rtol=1e-6, atol=1e-7)


def test_mismatched_vectors_are_refused():
    with pytest.raises(UsageError, match=r"mean \(3,\) and rho \(2,\)"):
        MeanField(torch.zeros(3), torch.zeros(2))
    with pytest.raises(UsageError, match="vectors"):
        MeanField(torch.zeros(2, 2), torch.zeros(2, 2))


def test_groups_separate_means_and_sds():
    q = mean_field()
    groups = q.groups()
    assert list(groups) == ["mean", "sd"]
    assert groups["mean"][0] is q.mean
    assert groups["sd"][0] is q.rho
