"""T10's checks on made-up trainings: two epochs a turn, of which all numbers are known."""

from __future__ import annotations

import numpy as np

from posterity.claims.evidence import Evidence
from posterity.claims.t10 import AlternatingGroups, changes
from posterity.claims.verdict import FAILS, HOLDS
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def training(seed: int, turn: int | None, accuracy: float, nll: list[float], kl: list[float]) -> Row:
    records = [{"epoch": e, "nll": a, "kl": b} for e, (a, b) in enumerate(zip(nll, kl, strict=True), 1)]
    config = {"seed": seed, "alternate": turn}
    return Row(f"{seed}-{turn}", config, {"accuracy": accuracy}, records=records)


def judged(nll: list[float], kl: list[float], *, lost: float = 0.0) -> list[str]:
    rows = []
    for seed in range(3):
        rows.append(training(seed, None, 0.5 + 0.01 * seed, nll, kl))
        rows.append(training(seed, 2, 0.5 + 0.011 * seed - lost, [n + 0.001 * seed for n in nll], kl))
    evidence = Evidence("T10", "smoke", {"runs": Results(rows)})
    return [check.outcome for check in AlternatingGroups().checks(evidence)]


def test_a_turns_change_is_from_the_end_of_the_turn_before() -> None:
    # Turns of 2 epochs that end at 4, 5, 1: the sds' adds 1 in 2 epochs, the means' takes 4 in 2.
    rows = Results([training(0, 2, 0.5, [9.0, 4.0, 7.0, 5.0, 2.0, 1.0], [0.0] * 6)])
    of_means, of_sds = changes(rows, "nll")
    np.testing.assert_allclose(of_means, [-2.0])
    np.testing.assert_allclose(of_sds, [0.5])


def test_what_the_source_saw_holds() -> None:
    assert judged([3, 2, 2.1, 2.2, 1.5, 1.2], [90, 89, 60, 40, 41, 42]) == [HOLDS] * 5


def test_groups_that_change_the_other_number_fail() -> None:
    outcomes = judged([3, 2, 1.5, 1.2, 1.3, 1.4], [90, 89, 90, 91, 60, 40])
    assert outcomes == [FAILS] * 4 + [HOLDS]


def test_a_lower_accuracy_fails() -> None:
    outcomes = judged([3, 2, 2.1, 2.2, 1.5, 1.2], [90, 89, 60, 40, 41, 42], lost=0.1)
    assert outcomes == [HOLDS] * 4 + [FAILS]
