"""T4's rule: sqrt(mu) inside of a region and not outside, and a lower excess with each falling schedule."""

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.claims.t4 import FALLING
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def evidence(inside: float, outside: float, gain: float) -> Evidence:
    """At mu = 0.25 and h = 1 the region is 0.25 to 2.25, and the factor in it 0.5."""
    place = {"momentum": 0.25, "curvature": 1.0, "seed": 0}
    descents = [
        Row("in", {**place, "lr": 1.0}, {"factor": inside}),
        Row("out", {**place, "lr": 0.1}, {"factor": outside}),
    ]
    regressions = []
    for seed in range(3):
        for name in ("constant", *FALLING):
            log = -2.0 - (gain + 0.01 * seed if name in FALLING else 0.0)
            regressions.append(Row(f"{seed}{name}", {"schedule": name, "seed": seed}, {"log_excess": log}))
    studies = {"descents": Results(descents), "regressions": Results(regressions)}
    return Evidence("T4", "cpu", studies)


def test_each_outcome_comes_about() -> None:
    (claim,) = find(["T4"])
    assert claim.verdict(evidence(0.501, 0.9, 1.0)).word == "reproduced"
    assert claim.checks(evidence(0.55, 0.9, 1.0))[0].outcome == "fails"
    assert claim.checks(evidence(0.5, 0.505, 1.0))[1].outcome == "fails"
    assert claim.verdict(evidence(0.5, 0.9, -0.01)).word == "undecided"
    assert claim.verdict(evidence(0.5, 0.9, -1.0)).word == "not reproduced"
