"""T3's rule: every row's right answer is the more probable, and the loss falls; the tempered neurons do not count."""

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(one: float, *, fall: float = -1.0, tempered: float = 0.9) -> Evidence:
    rows = []
    for seed in range(3):
        for temperature, at in ((1.0, one), (0.1, tempered)):
            metrics = {"after_00": 0.1, "after_01": 0.2, "after_10": 0.2, "after_11": at + 0.01 * seed}
            records = [{"epoch": i, "nll": 2.0 + 0.001 * seed * i + (fall if i > 18 else 0.0)} for i in range(1, 21)]
            config = {"temperature": temperature, "seed": seed}
            rows.append(Row(f"{seed}{temperature}", config, metrics, records=records))
    return Evidence("T3", "cpu", {"neurons": Results(rows)})


def test_each_outcome_comes_about() -> None:
    (claim,) = find(["T3"])
    assert claim.verdict(evidence(0.8)).word == "reproduced"
    assert [check.outcome for check in claim.checks(evidence(0.2))] == ["holds"] * 3 + ["fails", "holds"]
    assert claim.verdict(evidence(0.49)).word == "undecided"
    assert claim.checks(evidence(0.8, fall=4.0))[-1].outcome == "fails"
