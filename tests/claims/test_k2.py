"""K2's rule: gap N / p that does not grow is a reproduction, one that grows with N or p is none."""

from __future__ import annotations

import pytest
from made_up import made_up

from posterity.claims.claim import find
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED

(K2,) = find(["K2"])


@pytest.mark.parametrize(
    ("by_width", "by_data", "at_elbo", "word"),
    [
        (-1.0, 1.0, 0.9, REPRODUCED),
        (-0.5, 1.0, 0.9, NOT_REPRODUCED),
        (-1.0, 1.5, 0.9, NOT_REPRODUCED),
        (-1.0, 1.0, 1.5, NOT_REPRODUCED),
    ],
)
def test_verdicts(by_width, by_data, at_elbo, word):
    law, optima = [], []
    for seed in range(3):
        for width, p in ((10, 100), (100, 100), (100, 1000)):
            for classes in (0, 3):
                config = {"seed": seed, "width": width, "num_data": p, "classes": classes}
                law.append((config, {"gap": (1 + 0.01 * seed) * width**by_width * p**by_data}))
        for width in (16, 256):
            for maximised, scaled in (("limit", 1.0), ("elbo", at_elbo * width / 256)):
                config = {"seed": seed, "width": width, "maximised": maximised}
                optima.append((config, {"gap": scaled / width, "scaled_gap": scaled * (1 + 0.001 * seed * scaled)}))
    assert K2.verdict(made_up("K2", law=law, optima=optima)).word == word
