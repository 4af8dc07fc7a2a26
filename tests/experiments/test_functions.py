"""Functions of a study, against what is known in closed form."""

from __future__ import annotations

import math

import pytest

from posterity.core.errors import UsageError
from posterity.experiments.functions.exact_elbo import exact_elbo
from posterity.experiments.functions.penalty_prior import penalty_prior
from posterity.experiments.functions.quadratic_descent import quadratic_descent
from posterity.optim.regions import robust_rates


def test_descent_without_momentum_shrinks_by_one_minus_rate_times_curvature():
    assert quadratic_descent(lr=0.2, curvature=2.0)["factor"] == pytest.approx(0.6)
    assert quadratic_descent(lr=1.1, curvature=2.0)["diverged"] == 1.0


@pytest.mark.parametrize("momentum", [0.25, 0.81])
def test_descent_in_the_robust_region_shrinks_by_the_root_of_momentum(momentum):
    low, high = robust_rates(momentum, 3.0)
    for share in (0.2, 0.5, 0.8):
        found = quadratic_descent(lr=float(low + share * (high - low)), momentum=momentum, curvature=3.0, steps=2000)
        assert found["factor"] == pytest.approx(math.sqrt(momentum), rel=0.02)
        assert found["diverged"] == 0.0
    assert quadratic_descent(lr=2 * float(high), momentum=momentum, curvature=3.0)["diverged"] == 1.0


def test_descent_refuses_what_has_no_descent():
    with pytest.raises(UsageError, match="positive curvature"):
        quadratic_descent(lr=0.1, curvature=0.0)


def test_a_penaltys_prior_has_theorys_factor():
    assert penalty_prior(penalty="l1", inputs=50)["factor"] == pytest.approx(math.sqrt(100))
    found = penalty_prior(penalty="l2", inputs=50)
    assert (found["factor"], found["variance"], found["is_kl"]) == (pytest.approx(25), pytest.approx(1 / 50), 1.0)
    assert penalty_prior(penalty="l1", inputs=50, family="gaussian")["is_kl"] == 0.0


def test_the_gap_falls_with_the_width_and_is_free_of_the_temperature():
    wide = [exact_elbo(width=width, num_data=20) for width in (50, 5000)]
    assert 50 < wide[0]["gap"] / wide[1]["gap"] < 200
    hot = exact_elbo(width=50, num_data=20, temperature=3.0)
    assert hot["gap"] == pytest.approx(wide[0]["gap"])
    assert hot["elbo"] - wide[0]["elbo"] == pytest.approx(-2 * wide[0]["kl"])
    assert exact_elbo(width=5, seed=1) == exact_elbo(width=5, seed=1) != exact_elbo(width=5, seed=2)


def test_the_gap_of_classes_is_sampled_and_falls_with_the_width():
    wide = [exact_elbo(width=width, num_data=20, classes=3) for width in (10, 1000)]
    assert 20 < wide[0]["gap"] / wide[1]["gap"] < 500
    assert wide[0]["limit"] - wide[0]["elbo"] == pytest.approx(wide[0]["gap"])
