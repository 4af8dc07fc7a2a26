"""The rule of T8: how curves part runs, by hand; its verdict on made-up planes."""

import math

import numpy as np
import pytest

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.claims.t8 import best_edge, parting
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED
from posterity.experiments import Results
from posterity.experiments.row import DIVERGED, Row
from posterity.optim import fit_stable_rate


def test_parting_counts_pairs():
    good = np.array([True, True, False, False])
    assert parting(np.array([1.0, 2.0, 3.0, 4.0]), good) == 1.0
    assert parting(np.array([1.0, 3.5, 3.0, 4.0]), good) == 0.75
    assert parting(np.ones(4), good) == 0.5
    assert math.isnan(parting(np.ones(4), np.ones(4, dtype=bool)))


def test_the_best_edge_of_steps_is_the_line_of_stability():
    random = np.random.default_rng(0)
    lr, momentum = random.uniform(0.01, 1, 80), random.uniform(0, 0.9, 80)
    good = lr / (1 - momentum) * np.exp(random.normal(0, 0.3, 80)) < 0.7
    assert best_edge(lr / (1 - momentum), good) == pytest.approx(fit_stable_rate(lr, momentum, good))
    assert best_edge(np.array([-8.0, -2.0, -1.0]), np.array([True, True, False])) == pytest.approx(-math.sqrt(2))


def plane(dataset, a, low, high, random, *, straight):
    """Runs that learn where the step (or the rate alone) is between low and a, and diverge far beyond."""
    for number in range(60):
        lr, momentum = random.uniform(high / 2 if high < low else 1e-3, high), random.uniform(0, 0.99)
        step = lr / (1 - momentum) if straight else 2 * lr
        config = {"dataset": dataset, "seed": number, "lr": lr, "optimizer_options.momentum": momentum}
        nll = 0.5 if low < step < a else 2.2
        yield Row(f"{dataset}{number}", config, *(({}, DIVERGED) if step > 2 * a else ({"nll": nll},)))


@pytest.mark.parametrize(("straight", "verdict"), [(True, REPRODUCED), (False, NOT_REPRODUCED)])
def test_verdict_follows_the_shape_of_the_region(straight, verdict):
    random = np.random.default_rng(1)
    studies = {
        name: Results(
            [row for dataset, a in (("mnist", 0.8), ("cifar10", 0.2))
             for row in plane(dataset, a, 0.01, a if name == "whole" else 0.006, random, straight=straight)]
        )
        for name in ("whole", "low")
    }  # fmt: skip
    (claim,) = find(["T8"])
    found = claim.verdict(Evidence("T8", "cpu", studies))
    assert len(found.checks) == 9
    assert found.word == verdict, found
