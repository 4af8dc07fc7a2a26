"""T7: the draws of the search, and its rule on made-up curves."""

import numpy as np
import pytest

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.claims.t7 import BETTER, NAMES, search, successful
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED
from posterity.experiments import Results
from posterity.experiments.row import DIVERGED, Row


def test_values_are_drawn_around_all_combinations():
    cases = [case["run"] for case in search({"sgd": 40, "adam": 1, "radam": 2})]
    sgd = cases[: 15 * 40]
    assert [case["optimizer"] for case in cases[15 * 40 :]] == ["adam"] * 6 + ["radam"] * 6
    assert [case["optimizer_options"] for case in cases[-12:-9]] == [{"amsgrad": v} for v in (False, True, False)]
    assert cases[-1]["optimizer_options"] == {}
    middle = np.array([case["lr"] for case in sgd[200:400]]) / 1e-2  # the second rate, all five momenta
    assert len(set(middle.tolist())) == 200
    assert (middle.mean(), middle.std()) == (pytest.approx(1.0, abs=0.12), pytest.approx(0.5, abs=0.08))
    assert {case["optimizer_options"]["momentum"] for case in sgd[:40]} == {0.0}
    assert all(0 <= case["optimizer_options"]["momentum"] <= 0.999 for case in sgd)


def runs(accuracies, count=20):
    random = np.random.default_rng(0)
    for optimizer, level in accuracies.items():
        for number in range(count):
            last = level + random.normal(0, 0.02)
            config = {"optimizer": optimizer, "seed": number}
            records = [{"epoch": 1, "val_accuracy": 0.2}, {"epoch": 2, "val_accuracy": last}]
            metrics = {"accuracy": last, "val_accuracy": last}
            yield Row(f"{optimizer}{number}", config, metrics, records=records)
        flat = [{"epoch": 1, "val_accuracy": 0.1}]
        yield Row(f"{optimizer} dead", {"optimizer": optimizer, "seed": 0}, {"accuracy": 0.1}, records=flat)


def test_success_is_what_was_reached_in_some_epoch():
    rows = list(runs({"radam": 0.1}, 2))
    early = [{"epoch": 1, "val_accuracy": 0.3}]
    rows.append(Row("diverged", {"optimizer": "radam", "seed": 0}, {}, DIVERGED, records=early))
    assert [row.key for row in successful(Results(rows))] == ["radam0", "radam1", "diverged"]


@pytest.mark.parametrize(("sgd", "verdict"), [(0.4, REPRODUCED), (0.2, NOT_REPRODUCED)])
def test_each_of_the_better_must_beat_each_of_the_worse(sgd, verdict):
    levels = {name: 0.4 if name in BETTER else 0.3 for name in NAMES} | {"sgd": sgd}
    (claim,) = find(["T7"])
    evidence = Evidence("T7", "cpu", {"runs": Results(runs(levels))})
    assert claim.verdict(evidence).word == verdict
    assert claim.table(evidence).rows[0][:3] == ["AdaBound", "21", "95%"]
    assert len(claim.figure(evidence).axes) == 6
