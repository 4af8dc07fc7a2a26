"""K3's rule: a tempered balance that stays, and untempered ones that do not."""

from __future__ import annotations

import pytest
from made_up import made_up

from posterity.claims.claim import find
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED

(K3,) = find(["K3"])


@pytest.mark.parametrize(
    ("tempered", "law", "untempered", "word"),
    [
        (0.02, 1.0, -1.0, REPRODUCED),
        (0.5, 1.0, -1.0, NOT_REPRODUCED),
        (-0.5, 1.0, -1.0, NOT_REPRODUCED),
        (0.02, 0.0, -1.0, NOT_REPRODUCED),
        (0.02, 1.0, 0.0, NOT_REPRODUCED),
    ],
)
def test_verdicts(tempered, law, untempered, word):
    rows = []
    for seed in range(3):
        for width in (16, 256):
            config, factor = {"seed": seed, "width": width}, 1 + 0.01 * seed
            rows.append(({**config, "tau": 0.02}, {"balance": factor * width**tempered, "start_balance": 1.0}))
            rows.append((config, {"balance": factor * width**untempered, "start_balance": factor * width**law}))
    assert K3.verdict(made_up("K3", optima=rows, training=[])).word == word
