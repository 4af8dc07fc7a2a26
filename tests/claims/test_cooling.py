"""The rule of K4 and K5: where the optimum over temperatures is, and what it gains."""

from __future__ import annotations

import math

import pytest
from made_up import made_up

from posterity.claims.claim import find
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED, UNDECIDED

ETAS = (0.001, 0.1, 1.0, 10.0)
K4, K5 = find(["K4", "K5"])


def runs(optimum, *, seeds=3, lost=None, accuracy=-0.1):
    """Nll with its least value at `optimum`; accuracy falls by -`accuracy` times the same."""
    for seed in range(seeds):
        for eta in ETAS:
            if eta != lost:
                worse = abs(math.log10(eta / optimum)) * (1 + 0.01 * seed)
                yield {"seed": seed, "temperature": eta}, {"expected_nll": worse, "accuracy": 0.9 + accuracy * worse}
            else:
                yield {"seed": seed, "temperature": eta}, {}


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (runs(0.001), REPRODUCED),
        (runs(10.0), REPRODUCED),  # away to the other side
        (runs(1.0), NOT_REPRODUCED),
        (runs(0.1, accuracy=0.1), NOT_REPRODUCED),  # a better nll with a worse accuracy
        (runs(0.1, lost=10.0), REPRODUCED),  # a temperature at which runs diverge is not the best one
        (runs(0.1, lost=1.0), UNDECIDED),
        (runs(0.1, seeds=1), UNDECIDED),
    ],
)
def test_verdicts(rows, word):
    assert K5.verdict(made_up("K5", runs=rows)).word == word


def test_the_gain_is_measured_where_the_other_seeds_found_the_optimum():
    # Seed 2 alone is best at 0.001, by chance; what counts for it is its nll at the others' choice.
    rows = [({"seed": s, "temperature": e}, {"expected_nll": v, "accuracy": 1 - v})
            for s, values in enumerate([(3, 1, 2), (3, 1, 2), (0, 1.5, 2)])
            for e, v in zip((0.001, 0.1, 1.0), values, strict=True)]  # fmt: skip
    _, gain, _ = K4.checks(made_up("K4", runs=rows))
    assert gain.effect.mean == pytest.approx((-1 - 1 - 0.5) / 3)
