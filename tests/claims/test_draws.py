"""Effects over a search's draws, by hand and against SciPy."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from posterity.claims.draws import means_apart, numbers, rank_correlation, resampled
from posterity.experiments import Results
from posterity.experiments.row import DIVERGED, Row

RANDOM = np.random.default_rng(0)


def test_a_run_without_the_number_has_the_given_one():
    rows = [Row("a", {"lr": 0.1, "seed": 0}, {"nll": 1.5}), Row("b", {"lr": 1.0, "seed": 0}, {}, DIVERGED)]
    assert numbers(Results(rows), "nll", failed=2.0).tolist() == [1.5, 2.0]
    assert numbers(Results(rows), "lr").tolist() == [0.1, 1.0]


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = RANDOM.normal(3.0, 2.0, 400)
    found = resampled(lambda pick: values[pick].mean(), 400)
    assert found.mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / math.sqrt(400)
    assert [found.low, found.high] == pytest.approx([found.mean - half, found.mean + half], rel=0.02)


def test_a_statistic_that_resamples_often_lack_has_no_bounds():
    assert resampled(lambda pick: 1.0 if 0 in pick else math.nan, 20).low == -math.inf
    assert resampled(lambda pick: math.nan, 20).high == math.inf


def test_means_apart_is_their_difference():
    values = np.array([1.0, 2.0, 3.0, 10.0] * 10)
    small = values < 2.5
    found = means_apart(values, small, ~small)
    assert found.mean == pytest.approx(1.5 - 6.5)
    assert found.low < found.mean < found.high < 0


def test_rank_correlation_is_spearmans():
    one = RANDOM.normal(size=60)
    other = np.exp(one) + RANDOM.normal(size=60)
    found = rank_correlation(one, other)
    assert found.mean == pytest.approx(spearmanr(one, other).statistic)
    assert 0 < found.low < found.mean < found.high < 1
    assert math.isnan(rank_correlation(one, np.ones(60)).mean)
