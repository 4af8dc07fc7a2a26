"""Priors from penalties: what comes back, and which condition fails where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from posterity.core.errors import UsageError
from posterity.experiments.functions.penalty_recovery import PRIORS, penalty_recovery


@pytest.mark.parametrize("name", PRIORS)
def test_the_densities_written_here_are_densities_and_those_of_the_rules(name):
    density = PRIORS[name][1]
    one = quad(lambda w: density(np.array([w]))[0], -60, 60, points=[0.0], limit=200)[0]
    assert one == pytest.approx(1, abs=1e-4)
    found = penalty_recovery(penalty=name)
    assert (found["is_kl"], found["integrable"]) == (1.0, 1.0)
    assert found["distance"] < 0.02


@pytest.mark.parametrize(("penalty", "free_of_nu", "integrable"), [("mean-square", 0, 1), ("flat", 1, 0)])
def test_the_condition_that_fails_is_the_right_one(penalty, free_of_nu, integrable):
    found = penalty_recovery(penalty=penalty)
    assert found["is_kl"] == 0.0
    assert (found["dependence"] < 0.01, found["integrable"]) == (free_of_nu, integrable)
    assert "distance" not in found


def test_the_mean_square_s_candidates_by_hand():
    """A_nu = -entropy(nu) - (mu^2 - nu^2) / 2 for r = mu^2 / 2, whose deconvolution takes nu^2 away."""
    found = penalty_recovery(penalty="mean-square")["history"]
    middle = found[len(found) // 2]
    wanted = [-(0.5 * np.log(2 * np.pi * np.e) + np.log(nu)) + nu**2 / 2 for nu in (0.1, 0.2, 0.4)]
    assert [middle["a1"], middle["a2"], middle["a3"]] == pytest.approx(wanted, abs=1e-3)


def test_refuses_unknown_penalties():
    with pytest.raises(UsageError, match="penalty"):
        penalty_recovery(penalty="none")
