"""The fit of Student-t noise with a trend and a stretch, against scipy's and against what was drawn."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from posterity.likelihoods.student_fit import student_fit

TRUE = 0.3


def draws_of(distribution, count=4000, seed=0):
    return torch.as_tensor(distribution.rvs(count, random_state=seed))


def fit_of(drawn, samples=2):
    """Of residuals from weight samples that agree."""
    none, units = torch.zeros(samples, len(drawn)).double(), torch.ones(samples, len(drawn)).double()
    return student_fit(drawn, none, units, 1e-3)


@pytest.mark.parametrize("df", [3.0, 5.0, 12.0])
def test_the_fit_finds_a_known_student(df):
    """At the maximum that scipy finds by itself, and near the truth."""
    drawn = draws_of(stats.t(df, scale=TRUE))
    found = fit_of(drawn)
    v, _, c = stats.t.fit(drawn.numpy(), floc=0)
    assert (found.df, found.scale) == pytest.approx((v, c), rel=1e-3)
    assert found.log_density == pytest.approx(stats.t(v, 0, c).logpdf(drawn.numpy()).mean(), rel=1e-6)
    assert found.scale == pytest.approx(TRUE, rel=0.05)
    assert found.df == pytest.approx(df, rel=0.4)


def test_gaussian_residuals_stay_gaussian():
    drawn = draws_of(stats.norm(scale=TRUE))
    found = fit_of(drawn)
    assert found.df > 30
    assert (found.slope, found.stretch) == (0.0, 1.0)
    assert found.scale / math.sqrt(1 - 2 / found.df) == pytest.approx(drawn.square().mean().sqrt().item(), rel=0.01)


def test_the_fit_finds_a_trend_and_a_stretch():
    """Noise in proportion to exp(0.6 t), and samples that are half as wide as they should be."""
    g = torch.Generator().manual_seed(0)
    t, off = torch.randn(3000, generator=g).double(), torch.randn(32, 3000, generator=g).double()
    off = 0.15 * (off - off.mean(0))
    y = 0.3 * torch.randn(3000, generator=g).double() + draws_of(stats.t(6, scale=TRUE), 3000) * (0.6 * t).exp()
    units = torch.ones(32, 3000).double()
    found = student_fit(y, off, units, 1e-3, trend=t.expand(32, -1))
    assert 0.4 < found.slope < 0.7  # 32 samples have no tails, which noise then makes up for
    assert 1.4 < found.stretch < 2.2
    assert found.scale == pytest.approx(TRUE, rel=0.25)
    assert student_fit(y, off, units, 1e-3).slope == 0
    few = student_fit(y[:20], off[:, :20], units[:, :20], 1e-3, trend=t[:20].expand(32, -1))
    assert abs(few.slope) < 1.2  # few data are not believed whatever they say
