"""Effects by hand and against SciPy, checks at their bounds, verdicts of their checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from posterity.claims.verdict import (
    FAILS,
    HOLDS,
    NOT_REPRODUCED,
    OPEN,
    REPRODUCED,
    UNDECIDED,
    Check,
    Effect,
    Verdict,
    differences,
    over_seeds,
)
from posterity.core.errors import UsageError
from posterity.experiments.results import Results
from posterity.experiments.row import DIVERGED, FINISHED, Row


def rows(values, **config):
    """A row a seed; None diverged."""
    found = []
    for seed, value in enumerate(values):
        metrics, state = ({}, DIVERGED) if value is None else ({"accuracy": value}, FINISHED)
        found.append(Row(f"{config}-{seed}", {"seed": seed, **config}, metrics, state))
    return found


def effect(low, high):
    return Effect((low + high) / 2, low, high, 5)


def test_the_interval_is_students():
    values = [0.3, 0.1, 0.25, 0.6]
    found = Effect.of(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(values), low, high))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(2.0, 3.0, size=(4000, 3))
    covered = np.mean([effect.low < 2.0 < effect.high for effect in map(Effect.of, draws)])
    assert covered == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan, 2.0]])
def test_what_has_no_interval_decides_nothing(values):
    found = Effect.of(values)
    assert Check.above("", found).outcome == Check.below("", found).outcome == OPEN
    assert Check.within("", found, -10, 10).outcome == OPEN
    assert str(found).endswith(", no interval")


@pytest.mark.parametrize(
    ("low", "high", "above", "below", "within"),
    [
        (1, 2, HOLDS, FAILS, FAILS),
        (-2, -1, FAILS, HOLDS, FAILS),
        (-1, 1, OPEN, OPEN, OPEN),
        (0.1, 0.3, HOLDS, FAILS, HOLDS),
        (-0.3, 0.2, OPEN, OPEN, HOLDS),
        (0.0, 0.4, OPEN, FAILS, HOLDS),
        (-0.4, 0.0, FAILS, OPEN, HOLDS),
        (0.4, 0.6, HOLDS, FAILS, OPEN),
        (0.5, 0.6, HOLDS, FAILS, FAILS),
    ],
)
def test_a_check_is_decided_by_the_whole_interval(low, high, above, below, within):
    found = effect(low, high)
    assert Check.above("", found).outcome == above
    assert Check.below("", found).outcome == below
    assert Check.within("", found, -0.5, 0.5).outcome == within


def test_what_is_exact_is_always_decided():
    assert Check.above("", Effect.exact(1.0), 1.0).outcome == FAILS
    assert Check.above("", Effect.exact(1.0 + 1e-9), 1.0).outcome == HOLDS


def test_a_verdict_needs_all_and_fails_by_one():
    holds, fails, open_ = (Check.above("", effect(*pair)) for pair in ((1, 2), (-2, -1), (-1, 1)))
    assert Verdict([holds, holds]).word == REPRODUCED
    assert Verdict([holds, open_]).word == UNDECIDED
    assert Verdict([holds, open_, fails]).word == NOT_REPRODUCED
    with pytest.raises(UsageError, match="check"):
        Verdict([])


def test_differences_are_paired_by_seed():
    ours, theirs = Results(rows([0.9, 0.5, 0.7], lr=1.0)), Results(rows([0.8, 0.4, 0.6], lr=2.0)[::-1])
    found = differences(ours, theirs, "accuracy")
    assert (found.mean, found.high - found.low) == pytest.approx((0.1, 0.0), abs=1e-12)


def test_what_varies_beside_the_seed_is_averaged():
    both = Results([*rows([0.2, 0.4], lr=1.0), *rows([0.4, 0.8], lr=2.0)])
    found = over_seeds(both, "accuracy")
    assert (found.mean, found.count) == (pytest.approx((0.3 + 0.6) / 2), 2)


def test_a_run_that_diverged_counts_as_said_or_decides_nothing():
    ours, theirs = Results(rows([0.9, None])), Results(rows([0.5, 0.5]))
    assert math.isinf(differences(ours, theirs, "accuracy").high)
    assert differences(ours, theirs, "accuracy", failed=0.1).mean == pytest.approx((0.4 - 0.4) / 2)


def test_runs_that_are_the_same_have_tried_nothing():
    found = differences(Results(rows([0.9, 0.5])), Results(rows([0.9, 0.5])), "accuracy")
    assert Check.above("", found).outcome == Check.within("", found, -0.1, 0.1).outcome == OPEN
    one_differs = differences(Results(rows([0.9, 0.5])), Results(rows([0.9, 0.500001])), "accuracy")
    assert Check.within("", one_differs, -0.1, 0.1).outcome == HOLDS


def test_other_seeds_make_no_pairs():
    with pytest.raises(UsageError, match="no pairs"):
        differences(Results(rows([0.9, 0.8])), Results(rows([0.9])), "accuracy")
