"""A2's rule on made-up evidence: the better of ours against the best of the others."""

from __future__ import annotations

import pytest

from posterity.claims.a2 import AdaptiveMethods
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED, UNDECIDED
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(**means):
    """Four seeds about each mean (of accuracy; the loss is one minus it)."""
    rows = []
    for optimizer, mean in means.items():
        for seed, off in enumerate((-0.01, 0.0, 0.0, 0.01)):
            shift = off if optimizer in ("adam", "adabayes") else -off  # so that pairs of both kinds differ
            config = {"optimizer": optimizer.replace("_", "-"), "model": "m", "dataset": "d", "seed": seed}
            rows.append(Row(f"{optimizer}{seed}", config, {"accuracy": mean + shift, "nll": 1 - mean - shift}))
    return Evidence("A2", "cpu", {"runs": Results(rows)})


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ({"sgd": 0.9, "adam": 0.5, "adamw": 0.4, "adabayes": 0.3, "adabayes_fp": 0.7}, REPRODUCED),
        ({"sgd": 0.1, "adam": 0.7, "adamw": 0.8, "adabayes": 0.6, "adabayes_fp": 0.5}, NOT_REPRODUCED),
        ({"sgd": 0.1, "adam": 0.5, "adamw": 0.4, "adabayes": 0.4, "adabayes_fp": 0.501}, UNDECIDED),
    ],
)
def test_the_verdict_follows_the_best_of_each_kind(means, verdict):
    found = AdaptiveMethods().verdict(evidence(**means))
    assert found.word == verdict
    assert len(found.checks) == 2
    assert "SGD" not in found.checks[0].words
