"""W3's rule on made-up evidence: tuned on held-out data, judged on test data, averaged over penalties."""

from __future__ import annotations

import pytest

from posterity.claims.evidence import Evidence
from posterity.claims.verdict import FAILS, HOLDS, OPEN
from posterity.claims.w3 import PenaltyFactors
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(theory, usual):
    """Three seeds of two penalties; accuracies by global factor, on held-out data 1 % less."""
    rows = []
    for free, accuracies in ((False, theory), (True, usual)):
        for penalty in ("l2", "l1"):
            for factor, accuracy in accuracies.items():
                for seed, off in enumerate((-0.002, 0.0, 0.001)):
                    config = {"penalty": penalty, "penalty_factor": factor, "seed": seed}
                    config |= {"penalty_factors.*": 50.0} if free else {}
                    found = accuracy + (off if factor < 1 else -off)
                    metrics = {"accuracy": found, "val_accuracy": found - 0.01}
                    rows.append(Row(f"{free}{penalty}{factor}{seed}", config, metrics))
    return Evidence("W3", "cpu", {"cnn": Results(rows)})


@pytest.mark.parametrize(
    ("theory", "usual", "outcomes"),
    [
        ({0.1: 0.5, 1.0: 0.4, 10.0: 0.2}, {0.1: 0.3, 1.0: 0.49}, [HOLDS, HOLDS, HOLDS]),
        ({0.1: 0.3, 1.0: 0.4, 10.0: 0.5}, {0.1: 0.3, 1.0: 0.4}, [FAILS, HOLDS, FAILS]),
        ({0.1: 0.3, 1.0: 0.5, 10.0: 0.4}, {0.1: 0.3, 1.0: 0.5}, [HOLDS, FAILS, FAILS]),
        ({0.1: 0.501, 1.0: 0.5, 10.0: 0.4}, {0.1: 0.3, 1.0: 0.5}, [HOLDS, OPEN, OPEN]),
    ],
)
def test_outcomes_follow_the_best_factor(theory, usual, outcomes):
    claim = PenaltyFactors()
    found = claim.checks(evidence(theory, usual))
    assert [check.outcome for check in found] == outcomes
    assert len(claim.table(evidence(theory, usual)).rows) == 2
