"""The optimum of a wide network's ELBO, against what perturbation theory says of it."""

from __future__ import annotations

import math

import pytest

from posterity.core.errors import UsageError
from posterity.experiments.functions.mean_field_optimum import _data, mean_field_optimum


def test_untempered_the_kl_is_that_of_first_order_theory():
    # To first order in 1/N only the outer means move, all by m = v sum_i A_i y_i / (N s^2), A_i = E relu(b . x_i)
    # = sqrt(v / 2 pi) |x_i|: then KL = N m^2 / (2 v).
    width, v, s = 1000, 0.2, 0.5
    x, y = _data(30, s, seed=3)
    moments = math.sqrt(v / (2 * math.pi)) * x.norm(dim=1)
    expected = v * (moments * y[:, 0]).sum().item() ** 2 / (2 * width * s**4)
    found = mean_field_optimum(width=width, num_data=30, noise=s, seed=3, iterations=60)
    assert found["kl"] == pytest.approx(expected, rel=0.02)
    assert 0 < found["gain"] == pytest.approx(expected, rel=0.02)  # half of what the data gain is paid for
    assert found["slope"] < 1e-6


def test_terms_belong_together_at_a_temperature_by_neurons():
    found = mean_field_optimum(width=8, num_data=20, tau=0.05, iterations=60, seed=1)
    assert found["eta"] == pytest.approx(0.05 * 20 / 8)
    for place in ("", "start_"):
        kl, nll = found[f"{place}kl"], found[f"{place}nll"]
        assert found[f"{place}elbo"] == pytest.approx(-20 * nll - found["eta"] * kl)
        assert found[f"{place}balance"] == pytest.approx(found["eta"] * kl / (20 * nll))
        assert found[f"{place}scaled_gap"] == pytest.approx((found[f"{place}limit"] - found[f"{place}elbo"]) * 8 / 20)
    assert found["elbo"] > found["start_elbo"]
    assert found["gain"] > 0


def test_more_starts_and_the_right_objective_are_no_worse():
    settings = {"width": 8, "num_data": 20, "tau": 0.05, "iterations": 60, "seed": 1}
    one, three = mean_field_optimum(**settings), mean_field_optimum(**settings, starts=3)
    assert three["elbo"] >= one["elbo"]
    limit = mean_field_optimum(**settings, starts=3, maximised="limit")
    assert limit["limit"] > three["limit"]
    assert limit["elbo"] < three["elbo"]
    assert limit["gap"] > three["gap"]  # follows from the two


def test_from_a_fitted_q_the_ascent_ends_at_the_same_optimum_of_a_wide_network():
    near, far = (mean_field_optimum(width=200, num_data=20, iterations=80, fitted_at=tau) for tau in (0.0, 0.02))
    assert far["kl"] == pytest.approx(near["kl"], rel=1e-3)


def test_another_objective_is_refused():
    with pytest.raises(UsageError, match="elbo or limit, not 'loss'"):
        mean_field_optimum(width=4, maximised="loss")
