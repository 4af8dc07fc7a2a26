"""T5's rule: better on CIFAR-10, no worse on MNIST, and less variance, all groups of parameters together."""

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(gain: float, variance: float) -> Evidence:
    """The path derivative is better by `gain`, and the whole gradient's variance is `variance` times the total's 2."""
    rows, measured = [], {}
    for seed in range(3):
        for dataset in ("mnist", "cifar10"):
            for kind in ("total", "path"):
                accuracy = 0.5 + (gain + 0.0001 * seed if kind == "path" else 0.0)
                row = Row(f"{seed}{dataset}{kind}", {"dataset": dataset, "gradient": kind, "seed": seed},
                          {"accuracy": accuracy})  # fmt: skip
                rows.append(row)
            both = {"total": {"mean": 1.9, "sd": 0.1}, "path": {"mean": 0.5 * variance, "sd": 1.5 * variance}}
            measured[row.key] = {"start": both, "end": both}
    return Evidence("T5", "cpu", {"runs": Results(rows)}, measured)


def test_each_outcome_comes_about() -> None:
    (claim,) = find(["T5"])
    assert claim.verdict(evidence(0.05, 0.9)).word == "reproduced"
    slightly_worse = claim.checks(evidence(-0.005, 0.9))
    assert [check.outcome for check in slightly_worse if "accuracy" in check.words] == ["holds", "fails"]
    noisier = claim.checks(evidence(0.05, 1.1))
    assert [check.outcome for check in noisier if "variance" in check.words] == ["fails"] * 4
