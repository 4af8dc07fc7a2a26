import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.metrics import root_mean_squared_error
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from posterity.core.errors import UsageError
from posterity.metrics import (
    coverage,
    crps_gaussian,
    expected_log_likelihood,
    gaussian_log_likelihood,
    rmse,
)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def random_case(seed, samples=6, n=5, k=3):
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(samples, n, k, generator=generator, dtype=torch.float64)
    variances = torch.rand(samples, n, k, generator=generator, dtype=torch.float64) + 0.1
    return means, variances, torch.randn(n, k, generator=generator, dtype=torch.float64)


def test_rmse_by_hand_and_by_scikit_learn():
    mean, y = doubles(1.0, 2.0, 3.0), doubles(1.0, 4.0, 2.0)
    assert rmse(mean, y) == pytest.approx(math.sqrt(5 / 3))
    assert rmse(mean, y) == pytest.approx(root_mean_squared_error(y.numpy(), mean.numpy()))
    assert rmse(mean, mean) == 0
    assert rmse(doubles([1.0, 2.0]), doubles([2.0, 2.0])) == pytest.approx(math.sqrt(0.5))


def test_log_likelihoods_by_hand():
    # Densities at y = 0 of N(0, 1) and N(1, 4).
    first, second = 1 / math.sqrt(2 * math.pi), math.exp(-1 / 8) / math.sqrt(8 * math.pi)
    means, variances, y = doubles([[0.0]], [[1.0]]), doubles([[1.0]], [[4.0]]), doubles([0.0])
    assert gaussian_log_likelihood(means, variances, y) == pytest.approx(math.log((first + second) / 2))
    assert expected_log_likelihood(means, variances, y) == pytest.approx(math.log(first * second) / 2)


@pytest.mark.parametrize("seed", range(4))
def test_log_likelihoods_agree_with_torch_distributions(seed):
    means, variances, y = random_case(seed)
    parts = Independent(Normal(means.movedim(0, 1), variances.movedim(0, 1).sqrt()), 1)
    mixture = MixtureSameFamily(Categorical(torch.ones(len(y), len(means))), parts)
    assert gaussian_log_likelihood(means, variances, y) == pytest.approx(mixture.log_prob(y).mean().item())
    expected = Normal(means, variances.sqrt()).log_prob(y).sum(-1).mean().item()
    assert expected_log_likelihood(means, variances, y) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), samples=st.integers(1, 5))
def test_predictive_is_above_the_expected_log_likelihood(seed, samples):
    means, variances, y = random_case(seed, samples=samples)
    predictive = gaussian_log_likelihood(means, variances, y)
    expected = expected_log_likelihood(means, variances, y)
    assert predictive >= expected - 1e-12
    if samples == 1:
        assert predictive == pytest.approx(expected)


def test_log_likelihood_far_away_does_not_underflow():
    means, variances, y = doubles([[0.0]], [[0.0]]), doubles([[1.0]], [[1.0]]), doubles([1e3])
    assert gaussian_log_likelihood(means, variances, y) == pytest.approx(-0.5e6 - 0.5 * math.log(2 * math.pi))


@pytest.mark.parametrize(("mean", "variance", "y"), [(0.0, 1.0, 0.0), (1.0, 4.0, -2.0), (0.3, 0.01, 0.5)])
def test_crps_agrees_with_numerical_integration(mean, variance, y):
    # The definition: integral of (F(x) - [x >= y])^2.
    cdf = stats.norm(mean, math.sqrt(variance)).cdf
    below = integrate.quad(lambda x: cdf(x) ** 2, min(y, mean) - 12 * math.sqrt(variance), y)[0]
    above = integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, max(y, mean) + 12 * math.sqrt(variance))[0]
    assert crps_gaussian(doubles(mean), doubles(variance), doubles(y)) == pytest.approx(below + above, rel=1e-6)


def test_crps_limits():
    at_the_mean = 3.0 * (math.sqrt(2) - 1) / math.sqrt(math.pi)
    assert crps_gaussian(doubles(1.0), doubles(9.0), doubles(1.0)) == pytest.approx(at_the_mean)
    assert crps_gaussian(doubles(1.0, 2.0), doubles(0.0, 0.0), doubles(-1.0, 2.0)) == pytest.approx(1.0)
    assert crps_gaussian(doubles(0.0), doubles(1e-12), doubles(5.0)) == pytest.approx(5.0, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    mean=st.floats(-10, 10),
    sd=st.floats(0, 10),
    y=st.floats(-10, 10),
    scale=st.floats(0.1, 10),
    shift=st.floats(-5, 5),
)
def test_crps_is_between_zero_and_the_absolute_error_and_scales_like_y(mean, sd, y, scale, shift):
    value = crps_gaussian(doubles(mean), doubles(sd**2), doubles(y))
    assert -1e-12 <= value <= abs(y - mean) + sd * (math.sqrt(2) - 1) / math.sqrt(math.pi) + 1e-9
    moved = crps_gaussian(doubles(scale * mean + shift), doubles((scale * sd) ** 2), doubles(scale * y + shift))
    assert moved == pytest.approx(scale * value, rel=1e-6, abs=1e-9)


def test_coverage_by_hand():
    mean, variance = torch.zeros(4), torch.ones(4)
    y = torch.tensor([0.0, 1.9, -1.97, 3.0])  # the 95 % interval ends at 1.95996
    assert coverage(mean, variance, y) == 0.5
    assert coverage(mean, variance, y, level=0.5) == 0.25  # at 0.67449
    assert coverage(mean, variance, y, level=0.999) == 1.0  # at 3.29


def test_coverage_of_a_certain_prediction():
    assert coverage(doubles(1.0, 2.0), doubles(0.0, 0.0), doubles(1.0, 2.1)) == 0.5


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_of_the_right_distribution_is_its_level(level):
    y = torch.randn(40_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 + 1
    assert coverage(torch.ones_like(y), torch.full_like(y, 4.0), y, level=level) == pytest.approx(level, abs=0.01)


def test_broadcasting_is_refused():
    # (n, 1) against (n,) is the classical silent error.
    with pytest.raises(UsageError, match=r"mean has shape \(3, 1\), expected \(3,\)"):
        rmse(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(UsageError, match=r"variance has shape \(1,\), expected \(3,\)"):
        crps_gaussian(torch.zeros(3), torch.ones(1), torch.zeros(3))
    with pytest.raises(UsageError, match=r"y has shape \(3,\), expected \(3, 1\)"):
        gaussian_log_likelihood(torch.zeros(2, 3, 1), torch.ones(2, 3, 1), torch.zeros(3))
    with pytest.raises(UsageError, match=r"means has shape \(3, 1\), expected \(S, n, k\)"):
        expected_log_likelihood(torch.zeros(3, 1), torch.ones(3, 1), torch.zeros(3, 1))


def test_wrong_values_are_refused():
    with pytest.raises(UsageError, match=r"mean\[1\] is nan, expected finite"):
        rmse(torch.tensor([0.0, torch.nan]), torch.zeros(2))
    with pytest.raises(UsageError, match="not empty"):
        rmse(torch.zeros(0), torch.zeros(0))
    with pytest.raises(UsageError, match=r"variance\[0\] is -1\.0, expected a variance >= 0"):
        coverage(torch.zeros(1), -torch.ones(1), torch.zeros(1))
    with pytest.raises(UsageError, match=r"variances\[0, 0, 0\] is 0\.0, expected a variance > 0"):
        gaussian_log_likelihood(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), torch.zeros(1, 1))


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_wrong_level_is_refused(level):
    with pytest.raises(UsageError, match=f"level is {level}"):
        coverage(torch.zeros(1), torch.ones(1), torch.zeros(1), level=level)
