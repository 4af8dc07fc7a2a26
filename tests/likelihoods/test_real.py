"""Predictions of real targets against mixtures of torch.distributions, and their limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as td

from posterity.core.errors import UsageError
from posterity.likelihoods import GaussianNoise, RealPrediction, mixture

S, N, K = 6, 5, 2
G = torch.Generator().manual_seed(0)
MEANS = 2 * torch.randn(S, N, K, generator=G, dtype=torch.float64)
SDS = torch.rand(S, N, K, generator=G, dtype=torch.float64) + 0.1
Y = torch.randn(N, K, generator=G, dtype=torch.float64)
SHARES = (1e-12, 0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1 - 1e-12)


def prediction(means=MEANS, sds=SDS):
    noise = sds.square().mean(0).sqrt()
    return RealPrediction(means.mean(0), noise, means.std(0, correction=0), means, sds)


def alone(p):
    return RealPrediction(p.mean, p.aleatoric_sd, p.epistemic_sd)


def reference(means=MEANS, sds=SDS):
    """The mixture of each target by itself, (N, K)."""
    parts = td.Normal(means.movedim(0, -1), sds.movedim(0, -1))
    return td.MixtureSameFamily(td.Categorical(logits=torch.zeros_like(means).movedim(0, -1)), parts)


def test_moments():
    p = prediction()
    torch.testing.assert_close(p.total, reference().variance)
    torch.testing.assert_close(p.sd, reference().variance.sqrt())
    torch.testing.assert_close(p.aleatoric, SDS.square().mean(0))
    torch.testing.assert_close(p.epistemic, MEANS.var(0, correction=0))


def test_log_prob_is_the_joint_mixtures():
    parts = td.Independent(td.Normal(MEANS.movedim(0, 1), SDS.movedim(0, 1)), 1)
    joint = td.MixtureSameFamily(td.Categorical(logits=torch.zeros(N, S).double()), parts)
    torch.testing.assert_close(prediction().log_prob(Y), joint.log_prob(Y))
    torch.testing.assert_close(prediction().log_prob(Y.numpy()), joint.log_prob(Y))
    expected = td.Normal(MEANS, SDS).log_prob(Y).sum(-1).mean(0)
    torch.testing.assert_close(prediction().expected_log_prob(Y), expected)
    assert (prediction().expected_log_prob(Y) <= prediction().log_prob(Y)).all()


@pytest.mark.parametrize("q", SHARES)
def test_quantiles(q):
    found = prediction().quantile(q)
    below = reference().cdf(found)
    tail, expected = torch.minimum(below, 1 - below), torch.full_like(below, min(q, 1 - q))
    torch.testing.assert_close(tail, expected, rtol=1e-3, atol=1e-13)
    if 1e-6 < q < 1 - 1e-6:
        torch.testing.assert_close(below, torch.full_like(below, q), rtol=1e-12, atol=1e-12)


def test_quantiles_of_shares():
    p = prediction()
    assert torch.equal(p.quantile([0.1, 0.9]), torch.stack([p.quantile(0.1), p.quantile(0.9)]))
    low, high = p.interval(0.8)
    torch.testing.assert_close(torch.stack([low, high]), p.quantile([0.1, 0.9]))
    torch.testing.assert_close(torch.stack(p.interval()), p.quantile([0.05, 0.95]))


def test_an_interval_holds_its_share():
    low, high = prediction().interval(0.5)
    drawn = reference().sample((20_000,))
    inside = ((drawn > low) & (drawn < high)).double().mean(0)
    torch.testing.assert_close(inside, torch.full((N, K), 0.5).double(), atol=0.02, rtol=0)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)), min_size=1, max_size=5), st.floats(1e-6, 1 - 1e-6)
)
def test_quantiles_of_any_mixture(parts, q):
    means, sds = torch.tensor(parts, dtype=torch.float64).T.unsqueeze(-1).unsqueeze(-1)
    found = prediction(means, sds).quantile(q)
    # Neighbouring numbers are on both sides of the share.
    step = 1e-9 * max(abs(found.item()), sds.min().item())
    assert torch.special.ndtr((found - step - means) / sds).mean() <= q + 1e-9
    assert torch.special.ndtr((found + step - means) / sds).mean() >= q - 1e-9


def grid_entropy(means, sds):
    """By a fine grid."""
    y = torch.linspace((means - 10 * sds).min(), (means + 10 * sds).max(), 400_001, dtype=torch.float64)
    p = td.Normal(means.unsqueeze(-1), sds.unsqueeze(-1)).log_prob(y).exp().mean(0)
    return -torch.trapezoid(torch.xlogy(p, p), y).item()


@pytest.mark.parametrize("ratio", [1.0, 0.3, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("distance", [0.0, 0.7, 2.0, 4.0, 30.0])
def test_entropy_by_a_grid(ratio, distance):
    means = torch.tensor([0.0, distance], dtype=torch.float64)
    sds = torch.tensor([1.0, ratio], dtype=torch.float64)
    ours = prediction(means.view(2, 1, 1), sds.view(2, 1, 1)).entropy.item()
    assert ours == pytest.approx(grid_entropy(means, sds), abs=5e-6)


def test_entropy_by_monte_carlo():
    ours = prediction().entropy
    assert ours.shape == (N, K)
    drawn = reference().sample((40_000,))
    torch.testing.assert_close(ours, -reference().log_prob(drawn).mean(0), atol=0.03, rtol=0)


def test_entropy_of_components_far_apart():
    means, sds = 1e4 * torch.arange(8).double().view(8, 1, 1), torch.ones(8, 1, 1).double()
    expected = td.Normal(0.0, 1.0).entropy().item() + math.log(8)
    assert prediction(means, sds).entropy.item() == pytest.approx(expected, abs=1e-6)


def assert_gaussian(p, mean, sd):
    normal = td.Normal(mean, sd)
    torch.testing.assert_close(p.log_prob(Y), normal.log_prob(Y).sum(-1))
    torch.testing.assert_close(p.entropy, normal.entropy())
    for q in SHARES[1:-1]:
        torch.testing.assert_close(p.quantile(q), normal.icdf(torch.tensor(q, dtype=torch.float64)))


def test_one_sample_is_the_gaussian():
    p = prediction(MEANS[:1], SDS[:1])
    assert_gaussian(p, MEANS[0], SDS[0])
    torch.testing.assert_close(p.expected_log_prob(Y), p.log_prob(Y))
    many = prediction(MEANS[:1].expand(9, -1, -1), SDS[:1].expand(9, -1, -1))
    assert_gaussian(many, MEANS[0], SDS[0])


def test_moments_alone_are_the_gaussian():
    p = alone(prediction())
    assert_gaussian(p, p.mean, p.sd)
    drawn = p.mean + p.epistemic_sd * torch.randn(200_000, N, K, generator=G, dtype=torch.float64)
    expected = td.Normal(drawn, p.aleatoric_sd).log_prob(Y).sum(-1).mean(0)
    torch.testing.assert_close(p.expected_log_prob(Y), expected, rtol=0.02, atol=0.02)


def test_memory_bound_does_not_matter(monkeypatch):
    p = prediction()
    before = p.entropy, p.quantile(0.2), p.log_prob(Y), p.expected_log_prob(Y)
    monkeypatch.setattr(mixture, "NUMBERS_AT_A_TIME", 50)
    after = p.entropy, p.quantile(0.2), p.log_prob(Y), p.expected_log_prob(Y)
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_single_precision_is_kept():
    p = prediction(MEANS.float(), SDS.float())
    y = Y.float()
    for value in (p.entropy, p.quantile(0.2), p.log_prob(y), p.expected_log_prob(y), p.sd, alone(p).entropy):
        assert value.dtype == torch.float32
    torch.testing.assert_close(p.quantile(0.2).double(), prediction().quantile(0.2), rtol=1e-5, atol=1e-6)


def test_noise_that_has_vanished_is_a_step():
    means = torch.tensor([[[0.0]], [[1.0]]])
    p = prediction(means, torch.zeros(2, 1, 1))
    assert p.quantile(0.25).item() == pytest.approx(0, abs=1e-6)
    assert p.quantile(0.75).item() == pytest.approx(1, abs=1e-6)
    assert not p.log_prob([[0.5]]).isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e19, 1e-23, 1e30, 3.0])
def test_extreme_units(scale, dtype):
    p = prediction(MEANS.float(), SDS.float())
    y = p.rescaled(torch.tensor([scale, -scale], dtype=dtype), torch.tensor([scale, 2 * scale], dtype=dtype))
    sd = torch.tensor([scale, 2 * scale], dtype=torch.float64)
    assert y.mean.dtype == y.sd.dtype == y.samples.dtype == y.noise_sd.dtype == dtype
    close = {"rtol": 1e-5, "atol": 0.0}
    torch.testing.assert_close(y.sd.double() / sd, p.sd.double(), **close)
    torch.testing.assert_close(y.aleatoric_sd.double() / sd, p.aleatoric_sd.double(), **close)
    torch.testing.assert_close(y.epistemic_sd.double() / sd, p.epistemic_sd.double(), **close)
    shift = torch.tensor([scale, -scale], dtype=torch.float64)
    back = (y.quantile(0.9).double() - shift) / sd
    torch.testing.assert_close(back, p.quantile(0.9).double(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(y.entropy.double() - sd.log(), p.entropy.double(), rtol=1e-4, atol=1e-4)
    at = Y.to(dtype) * sd.to(dtype) + shift.to(dtype)
    expected = p.log_prob(Y).double() - sd.log().sum()
    torch.testing.assert_close(y.log_prob(at).double(), expected, rtol=1e-4, atol=1e-4)


def test_raw_outputs_of_an_extreme_scale():
    outputs = torch.tensor([[[1e25]], [[3e25]]])
    p = GaussianNoise(1e22).predict(outputs)
    assert p.epistemic_sd.item() == pytest.approx(1e25)
    assert p.aleatoric_sd.item() == pytest.approx(1e22)
    small = GaussianNoise(1e-28).predict(1e-50 * outputs)
    assert small.epistemic_sd.item() == pytest.approx(1e-25)
    assert small.aleatoric_sd.item() == pytest.approx(1e-28)


def test_units_by_hand():
    p = prediction()
    for mean, sd in ((10.0, 2.0), (np.array([10.0, 10.0]), np.array([2.0, 2.0])), (torch.tensor(10.0), 2)):
        y = p.rescaled(mean, sd)
        torch.testing.assert_close(y.mean, 10 + 2 * p.mean)
        torch.testing.assert_close(y.samples, 10 + 2 * p.samples)
        torch.testing.assert_close(y.noise_sd, 2 * p.noise_sd)
        torch.testing.assert_close(y.total, 4 * p.total)
    single = prediction(MEANS.float(), SDS.float())
    assert single.rescaled(10.0, 2.0).mean.dtype == torch.float32
    assert single.rescaled(0.0, torch.tensor(2.0, dtype=torch.float64)).samples.dtype == torch.float64
    assert alone(p).rescaled(10.0, 2.0).samples is None


@pytest.mark.parametrize("sd", [0.0, -1.0, math.inf, math.nan])
def test_units_without_a_scale(sd):
    with pytest.raises(UsageError, match="must be positive and finite"):
        prediction().rescaled(0.0, sd)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_shares_that_are_none(q):
    with pytest.raises(UsageError, match="between 0 and 1"):
        prediction().quantile(q)
    with pytest.raises(UsageError, match="between 0 and 1"):
        prediction().interval(q)


def test_targets_of_another_shape():
    for ask in (prediction().log_prob, prediction().expected_log_prob):
        with pytest.raises(UsageError, match=r"must have shape \(5, 2\), not \(5,\)"):
            ask(Y[:, 0])


def test_samples_come_with_their_noise():
    with pytest.raises(UsageError, match="both, or neither"):
        RealPrediction(MEANS[0], SDS[0], SDS[0], samples=MEANS)
