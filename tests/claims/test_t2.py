"""T2's rule: below at the end and on the way."""

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(end: float, way: float) -> Evidence:
    """Three seeds of which the Bayesian network is better by so much at the end, and on the way."""
    rows = []
    for seed in range(3):
        for kind, better in (("point", 0.0), ("mean_field", 1.0)):
            noise = 0.001 * seed * better
            config = {"dataset": "mnist", "posterior": kind, "seed": seed}
            course = [0.5 + better * way + noise, 0.7 + better * way + noise]
            records = [{"epoch": i, "val_accuracy": value} for i, value in enumerate(course, 1)]
            metrics = {"accuracy": 0.9 + better * end + noise}
            rows.append(Row(f"{seed}{kind}", config, metrics, records=records))
    return Evidence("T2", "cpu", {"runs": Results(rows)})


def test_each_outcome_comes_about() -> None:
    (claim,) = find(["T2"])
    assert claim.verdict(evidence(-0.05, -0.05)).word == "reproduced"
    assert [check.outcome for check in claim.checks(evidence(-0.05, 0.05))] == ["holds", "fails"]
    assert [check.outcome for check in claim.checks(evidence(0.05, -0.05))] == ["fails", "holds"]
    assert claim.verdict(evidence(-0.001, -0.05)).word == "undecided"
