"""The AND perceptron: its start, what its numbers mean, and that it learns where the prior is weak."""

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from posterity.core.errors import UsageError
from posterity.experiments.functions.learn_and import learn_and


def test_it_starts_at_kaimings_sds_and_tells_the_predictive_of_its_weights() -> None:
    found = learn_and(steps=2, records=2)
    assert [found[f"before_{name}_sd"] for name in ("w1", "w2", "b")] == pytest.approx([1.0] * 3)  # sqrt(2 / 2 inputs)
    mean = found["before_w1_mean"] + found["before_w2_mean"] + found["before_b_mean"]
    law = norm(mean, math.sqrt(3))  # of w1 + w2 + b, cut to [0.001, 0.999]
    exact = 0.001 * law.cdf(0.001) + quad(lambda z: z * law.pdf(z), 0.001, 0.999)[0] + 0.999 * law.sf(0.999)
    assert found["before_11"] == pytest.approx(exact, abs=0.04)


def test_records_hold_means_over_their_steps() -> None:
    fine = learn_and(steps=6, records=6, seed=1)["history"]
    coarse = learn_and(steps=6, records=2, seed=1)["history"]
    assert [record["step"] for record in coarse] == [3, 6]
    for name in ("nll", "kl"):
        assert coarse[1][name] == pytest.approx(sum(record[name] for record in fine[3:]) / 3)


def test_it_learns_and_where_the_prior_is_weak() -> None:
    found = learn_and(steps=300, records=10, lr=0.05, temperature=0.01, gradient="analytic")
    assert found["after_11"] > 0.6
    assert max(found["after_00"], found["after_01"], found["after_10"]) < 0.4


def test_steps_that_make_no_whole_records_are_refused() -> None:
    with pytest.raises(UsageError, match="multiple of records"):
        learn_and(steps=10, records=3)
