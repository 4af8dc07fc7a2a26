"""The rule of T11 on made-up landscapes."""

import numpy as np
import pytest

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.claims.t11 import widths
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED
from posterity.experiments import Results
from posterity.experiments.row import DIVERGED, Row


def runs(optimizer, accuracy, count=60):
    """Log-uniform rates; `accuracy` is of their logarithms, and a run of the highest rates diverges."""
    random = np.random.default_rng(3)
    for number in range(count):
        lr, lr_sd = random.uniform(-5, 0, 2).tolist()
        config = {"optimizer": optimizer, "seed": number, "lr": 10**lr, "lr_sd": 10**lr_sd}
        metrics = {"accuracy": accuracy(lr, lr_sd) + random.normal(0, 0.005), "kl": 1e4 - 1e3 * lr_sd}
        yield Row(f"{optimizer}{number}", config, *(({}, DIVERGED) if lr > -0.2 else (metrics,)))


def indifferent(lr, lr_sd):
    return 0.4 if lr < -1 else 0.15


def narrow_in_the_means(lr, lr_sd):
    return 0.4 if abs(lr + 3) < 0.6 and lr_sd < -2.5 else 0.2


def narrow_in_the_sds(lr, lr_sd):
    return 0.4 if abs(lr_sd + 3) < 0.6 and lr < -1 else 0.2


@pytest.mark.parametrize(
    ("adabound", "adam", "verdict"),
    [
        (indifferent, narrow_in_the_means, REPRODUCED),
        (indifferent, narrow_in_the_sds, NOT_REPRODUCED),
        (narrow_in_the_sds, narrow_in_the_means, NOT_REPRODUCED),
    ],
)
def test_verdict_follows_the_shape_of_the_landscapes(adabound, adam, verdict):
    rows = Results([*runs("adabound", adabound), *runs("adam", adam)])
    (claim,) = find(["T11"])
    found = claim.verdict(Evidence("T11", "cpu", {"runs": rows}))
    assert found.word == verdict, found


def test_a_width_is_one_where_a_rate_does_not_matter_and_the_share_of_decades_where_it_does():
    found = widths(Results(runs("adam", lambda lr, lr_sd: 0.4 if -4 < lr < -2 else 0.1, 400)))
    assert found["lr"].mean == pytest.approx(2 / 5, abs=0.05)
    assert found["lr_sd"].low < 1 < found["lr_sd"].high
    assert found["ratio"].mean == pytest.approx(np.log(found["lr"].mean / found["lr_sd"].mean))
