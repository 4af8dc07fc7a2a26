"""K2: the gap between the ELBO and its mean-field functional,    |ELBO - F~| <= C p / N    (source 002, theorem)."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import Groups, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Effect
from posterity.claims.wide import NONE, TAU, by_width, draw_widths, slopes
from posterity.experiments.results import Results
from posterity.report.figures import row

STARTS = {16: 3, 64: 2, 256: 1}
LOSSES = {0: "square loss", 3: "cross-entropy"}
OBJECTIVES = {"limit": "optimum of F~", "elbo": "optimum of the ELBO"}


@claim("K2", source="002, theorem")
class MeanFieldGap(Claim):
    """The ELBO of N neurons and p data differs from its mean-field functional by at most C p / N.

    The functional F~ takes the loss at the expected output, where the ELBO expects the loss. The source proves that one
    constant C bounds |ELBO - F~| N / p for all N and p and all q whose parameters are bounded. It is a bound: gap N / p
    need not be constant, it must not grow. Asked at a fixed law of the neurons (means drawn from the prior, half the
    prior's sd), for the square loss (exact) and for cross-entropy (sampled), and at the optima of the tempered ELBO and
    of F~ itself, which a theorem for all q includes.
    """

    studies = {
        "law": {
            "function": "exact_elbo",
            "axes": {"classes": [0, 3]},
            "seeds": 10,
            "scales": {
                "paper": {
                    "seeds": 20,
                    "cases": [
                        {"axes": {"width": [10, 30, 100, 300, 1000, 3000, 10000], "num_data": [100]}},
                        {"axes": {"width": [100], "num_data": [30, 300, 1000, 3000]}},
                    ],
                },
                "cpu": {
                    "cases": [
                        {"axes": {"width": [30, 100, 300, 1000], "num_data": [100]}},
                        {"axes": {"width": [100], "num_data": [30, 300, 1000]}},
                    ],
                },
                "smoke": {
                    "seeds": 2,
                    "cases": [
                        {"axes": {"width": [10, 30], "num_data": [10]}},
                        {"axes": {"width": [10], "num_data": [30]}},
                    ],
                },
            },
        },
        "optima": {
            "function": "mean_field_optimum",
            "parameters": {"tau": TAU},
            "axes": {"maximised": list(OBJECTIVES)},
            "seeds": 5,
            "scales": {
                "paper": {"seeds": 10, "cases": by_width({**STARTS, 1024: 1, 4096: 1})},
                "cpu": {"cases": by_width(STARTS), "parameters": {"iterations": 150}},
                "smoke": {"seeds": 2, "cases": by_width({4: 1, 16: 1}, num_data=10), "parameters": {"iterations": 20}},
            },
        },
    }
    rule = (
        f"For both losses at the fixed law: the slope of log gap over log N is below {NONE - 1:g} and that over log p "
        f"below {1 + NONE:g} (gap N / p does not grow by more than the power {NONE} of either). At the optima of F~ "
        f"the slope over log N is below {NONE - 1:g}. At the optima of the ELBO the largest gap N / p of all widths "
        "is below that at the optima of F~: log ratio below 0."
    )
    departs = {
        "cpu": "The source proves it and shows no experiment. Here: random data in three dimensions for the fixed "
        "law, 30 to 1000 neurons, 30 to 1000 data; a sine with 40 data, tau = 0.02 by neurons, for the "
        "optima. These are the best of a few ascents of 150 iterations, which leave a gradient of up to "
        "1e-3: at the ELBO's own optima the scaled gap still grows with N, towards that at F~'s, which "
        "bounds it.",
        "paper": "As the smaller scale, with up to 10000 neurons, 3000 data, and more seeds.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """The fixed law, then the optima."""
        found = []
        for name, rows in _laws(evidence).items():
            widths, data = _lines(rows)
            found.append(Check.below(f"{name}: slope over log N", slopes(widths, "width", "gap"), NONE - 1))
            found.append(Check.below(f"{name}: slope over log p", slopes(data, "num_data", "gap"), NONE + 1))
        at = evidence["optima"].group_by("maximised")
        found.append(Check.below("optimum of F~: slope over log N", slopes(at["limit"], "width", "gap"), NONE - 1))
        most = [_largest(at[name], "scaled_gap") for name in ("elbo", "limit")]
        ratio = Effect.of(math.log(most[0][seed] / most[1][seed]) for seed in most[0])
        found.append(Check.below("log of largest gap N / p, optimum of the ELBO over that of F~", ratio))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a law, width and number of data, or an objective and width."""
        laws = {
            f"{name}, N = {width}, p = {p}": rows
            for name, group in _laws(evidence).items()
            for (width, p), rows in group.group_by("width", "num_data").items()
        }
        optima = {
            f"{name}, N = {width}": rows
            for name, group in _optima(evidence).items()
            for width, rows in group.group_by("width").items()
        }
        one, other = (groups_table(groups, ("gap", "elbo", "kl"), head="where") for groups in (laws, optima))
        return Table(one.heads, [*one.rows, *other.rows])

    def figure(self, evidence: Evidence) -> Figure:
        """The gap over N, over p, and gap N / p at the optima."""
        figure, (over_widths, over_data, scaled) = row(3, width=4.2, height=3.6)
        laws = {name: _lines(rows) for name, rows in _laws(evidence).items()}
        draw_widths(over_widths, {name: lines[0] for name, lines in laws.items()}, "gap", "gap at the fixed law (nats)")
        by_data = {name: lines[1] for name, lines in laws.items()}
        draw_widths(over_data, by_data, "gap", "gap at the fixed law (nats)", over=("num_data", "data p"))
        optima = _optima(evidence)
        shifted = {**dict.fromkeys(laws, _nothing(evidence)), **optima}  # the first two colours are the laws'
        draw_widths(scaled, shifted, "scaled_gap", "gap N / p at the optima (nats)", log=False)
        scaled.set_ylim(bottom=0)
        legend(figure)
        return figure


def _laws(evidence: Evidence) -> Groups:
    by = evidence["law"].group_by("classes")
    return {f"fixed law, {LOSSES[classes]}": rows for classes, rows in by.items()}


def _optima(evidence: Evidence) -> Groups:
    by = evidence["optima"].group_by("maximised")
    return {OBJECTIVES[name]: by[name] for name in OBJECTIVES}


def _nothing(evidence: Evidence) -> Results:
    return evidence["optima"].filter(lambda row: False)


def _lines(rows: Results) -> tuple[Results, Results]:
    """Those that differ in the width alone, and those that differ in the number of data alone: a row is in both."""
    num_data = next(p for p, part in rows.group_by("num_data").items() if len(part.group_by("width")) > 1)
    width = next(w for w, part in rows.group_by("width").items() if len(part.group_by("num_data")) > 1)
    return rows.where(num_data=num_data), rows.where(width=width)


def _largest(rows: Results, metric: str) -> dict[int, float]:
    return {seed: float(part.values(metric).max()) for seed, part in rows.group_by("seed").items()}
