"""What source 003's claims share: rows by method, the average's courses, means over the epochs that have an average."""

from __future__ import annotations

from typing import Any

import numpy as np

from posterity.claims.evidence import Evidence
from posterity.claims.h1 import ConvergenceOnMNIST
from posterity.claims.h3 import LowRankAverage
from posterity.claims.hwa import ANNEALING, BBB, HWA, RESTARTED, ROWS, SGLD, fewer, langevin, methods, over_epochs
from posterity.claims.verdict import FAILS, HOLDS, OPEN
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def training(seed: int, optimizer: str, nll: list[float], average: list[float | None], restart: bool = False) -> Row:
    """Accuracies are 1 - nll / 10."""
    records: list[dict[str, Any]] = []
    for epoch, (own, averaged) in enumerate(zip(nll, average, strict=True), 1):
        record = {"epoch": epoch, "val_nll": own, "val_accuracy": 1 - own / 10}
        if averaged is not None:
            record |= {"val_average_nll": averaged, "val_average_accuracy": 1 - averaged / 10}
        records.append(record)
    config = {"seed": seed, "optimizer": optimizer, "average_restart": restart}
    return Row(f"{seed}{optimizer}{restart}", config, {"accuracy": 0.5}, records=records)


def trainings(hwa: float, sgld: float) -> Results:
    """BBB's nll is 9, 2, 2; its average and Langevin dynamics are better or worse in the last two epochs."""
    rows = []
    for seed in (1, 0, 2):
        shift = 0.001 * seed
        rows.append(training(seed, "sgd", [9.0, 2.0, 2.0], [None, hwa + shift, hwa - 2 * shift]))
        rows.append(training(seed, "sgd", [9.0, 2.0, 2.0], [None, 5.0, 5.0], restart=True))
        rows.append(training(seed, "sgld", [0.0, sgld - shift, sgld], [None, 1.0, 1.0]))
    return Results(rows)


def test_methods_are_apart_and_in_order_of_seed() -> None:
    groups = methods(trainings(1.5, 1.6))
    assert list(groups) == [BBB, HWA, SGLD, RESTARTED]
    assert [row.seed for row in groups[SGLD]] == [0, 1, 2]


def test_means_are_over_the_epochs_that_have_an_average() -> None:
    found = over_epochs(methods(trainings(1.5, 1.6)), "val_nll")
    np.testing.assert_allclose(found[BBB], [2.0, 2.0, 2.0])
    np.testing.assert_allclose(found[HWA], [1.5, 1.4995, 1.499])
    np.testing.assert_allclose(found[SGLD], [1.6, 1.5995, 1.599])


def test_h1_is_reproduced_by_faster_methods_and_not_by_slower_ones() -> None:
    def outcomes(hwa: float, sgld: float) -> list[str]:
        evidence = Evidence("H1", "smoke", {"runs": trainings(hwa, sgld)})
        return [check.outcome for check in ConvergenceOnMNIST().checks(evidence)]

    assert outcomes(1.5, 1.6) == [HOLDS] * 5
    assert outcomes(2.5, 1.6) == [FAILS, FAILS, HOLDS, HOLDS, FAILS]
    assert outcomes(1.5, 2.5) == [HOLDS, HOLDS, FAILS, FAILS, FAILS]


def test_langevin_dynamics_drifts_as_sgd_whatever_the_rows() -> None:
    settings = fewer("mnist", 6000, held=0.5)
    drift = 0.5 * langevin(0.1, "mnist")["lr"] * 3000 / settings["temperature"]
    np.testing.assert_allclose(drift, 0.1)
    np.testing.assert_allclose(settings["temperature"] / 3000, ANNEALING / ROWS["mnist"])


def test_h3_asks_for_a_gain_to_speak_of() -> None:
    def outcome(low: list[float]) -> str:
        rows = [
            Row(f"{kind}{seed}", {"dataset": "mnist", "covariance": kind, "seed": seed}, {"average.nll": nll})
            for kind, values in (("snapshot", [0.100, 0.104, 0.098]), ("low_rank", low))
            for seed, nll in enumerate(values)
        ]
        (check,) = LowRankAverage().checks(Evidence("H3", "smoke", {"runs": Results(rows)}))
        return check.outcome

    assert outcome([0.090, 0.094, 0.088]) == HOLDS
    assert outcome([0.0995, 0.1035, 0.0974]) == FAILS  # half a per cent
    assert outcome([0.110, 0.114, 0.108]) == FAILS
    assert outcome([0.090, 0.110, 0.098]) == OPEN
    assert outcome([0.090, 0.094, float("nan")]) == OPEN  # one that diverged
