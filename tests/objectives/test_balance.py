"""The temperature that follows a training's loss and KL."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posterity.objectives.balance import HIGHEST, LOWEST, B, Balance, C, balanced

positive = st.floats(1e-3, 1e3)


def test_by_hand():
    """C L (p / K)^B: of L = 1 and a nat a datum it is C."""
    assert balanced(1.0, 500.0, 500) == C == 0.108
    assert balanced(0.5, 4 * 500.0, 500) == pytest.approx(0.108 * 0.5 / 4**0.1)


@given(loss=positive, kl=positive, factor=st.floats(1.01, 10))
def test_it_grows_with_the_loss_and_falls_with_the_kl(loss, kl, factor):
    here = balanced(loss, kl, 10)
    assert balanced(factor * loss, kl, 10) == pytest.approx(here * factor)
    assert balanced(loss, factor * kl, 10) == pytest.approx(here * factor**-B)
    assert balanced(loss, kl, 10 * factor) == pytest.approx(here * factor**B)


def test_it_starts_at_its_highest_and_never_exceeds_it():
    balance = Balance(num_data=100, constant=0.02)
    assert balance.temperature == HIGHEST * 0.02 == 0.03
    balance.observe(2.3, 10.0, 1.0)
    assert balance.temperature == 0.03 < balanced(2.3, 10.0, 100)
    balance.observe(0.2, 1e3, 1.0)
    assert balance.temperature == pytest.approx(balanced(0.2, 1e3, 100))
    assert balance.temperature < 0.02
    assert Balance(100, 0.02, 0.6, 0.2, 1e3).temperature == pytest.approx(0.6 * balanced(0.2, 1e3, 100))


def test_it_does_not_fall_below_a_share_of_the_constant():
    assert Balance(100, 0.02, 1.0, 1e-4, 1e4).temperature == LOWEST * 0.02 > balanced(1e-4, 1e4, 100)
    assert Balance(100, 0.02, 1.0, 0.0, 1e4).temperature == LOWEST * 0.02  # exact data


def test_averages_move_by_shares():
    balance = Balance(num_data=100, constant=1.0)
    balance.observe(2.0, 300.0, 0.1)  # the first is taken whole
    balance.observe(1.0, 100.0, 0.25)
    assert (balance.loss, balance.kl) == (1.75, 250.0)


@pytest.mark.parametrize(("loss", "kl"), [(math.nan, 1.0), (1.0, math.inf), (math.inf, 1.0)])
def test_what_is_not_finite_is_passed_over(loss, kl):
    balance = Balance(100, 1.0, 1.0, 0.5, 50.0)
    balance.observe(loss, kl, 0.5)
    assert (balance.loss, balance.kl) == (0.5, 50.0)


@pytest.mark.parametrize(("loss", "kl"), [(0.0, 100.0), (-1.0, 100.0), (0.0, 0.0), (1.0, -5.0)])
def test_it_is_positive_and_finite_whatever_they_are(loss, kl):
    assert 0 <= balanced(loss, kl, 100) < math.inf
    assert 0 < Balance(100, 0.02, 1.0, loss, kl).temperature <= 0.03


@given(start=st.floats(1e-4, 1e-1))
def test_it_settles_where_the_two_terms_agree(start):
    """Where L falls with T and K grows as it falls, from any start to the same place: a contraction."""
    temperature = start
    for _ in range(200):
        temperature = balanced(2 * temperature**0.6, 3000 * temperature**-0.4, 1000)
    exponent = 1 - (0.6 + 0.4 * B)
    assert temperature == pytest.approx((C * 2 / 3**B) ** (1 / exponent), rel=1e-6)


def test_its_state_goes_round():
    balance, other = Balance(100, 1.0, 1.0, 0.5, 50.0), Balance(100, 1.0)
    other.restore(balance.state())
    assert other == balance
