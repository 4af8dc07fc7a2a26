"""K1's rule: a KL that falls is a reproduction; one that stays, or stays at the fit, is none."""

from __future__ import annotations

import pytest
from made_up import made_up

from posterity.claims.claim import find
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED, UNDECIDED

(K1,) = find(["K1"])


@pytest.mark.parametrize(
    ("slope", "fitted", "seeds", "word"),
    [
        (-1.0, 0.01, 3, REPRODUCED),
        (-0.1, 0.01, 3, NOT_REPRODUCED),
        (-1.0, 5.0, 3, NOT_REPRODUCED),
        (-1.0, 0.01, 1, UNDECIDED),
    ],
)
def test_verdicts(slope, fitted, seeds, word):
    rows = []
    for seed in range(seeds):
        for width in (4, 64, 1024):
            config = {"seed": seed, "width": width, "num_data": 40}
            rows.append((config, {"kl": (1 + 0.01 * seed) * width**slope}))
            rows.append(({**config, "fitted_at": 0.02}, {"kl": fitted + 0.001 * seed}))
    assert K1.verdict(made_up("K1", optima=rows)).word == word
