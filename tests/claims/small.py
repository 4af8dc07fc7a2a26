"""A small claim of its own, for tests: a function's numbers, exact."""

from __future__ import annotations

from matplotlib.figure import Figure

from posterity.claims.claim import Claim
from posterity.claims.drawing import draw_over, groups_table
from posterity.claims.verdict import Check, over_seeds
from posterity.report.figures import row


class Descent(Claim):
    """Without momentum the error shrinks by 1 - lr a step.

    A question | with a bar, and <tags>.
    """

    id, source = "T0", "000, section 3.1"
    studies = {
        "descent": {
            "function": "quadratic_descent",
            "parameters": {"steps": 50},
            "axes": {"lr": [0.25, 0.5]},
            "seeds": 3,
            "scales": {"smoke": {"seeds": 2}, "cpu": {}, "paper": {"seeds": 9}},
        }
    }
    rule = "The factor at rate 0.25 is within 1e-9 of 0.75."
    departs = {"cpu": "Nothing.", "paper": "Nothing."}

    def measure(self, studies):
        return {"items": len(studies["descent"])}

    def checks(self, evidence):
        found = over_seeds(evidence.results.where(lr=0.25), "factor")
        return [Check.within("factor", found, 0.75 - 1e-9, 0.75 + 1e-9)]

    def table(self, evidence):
        return groups_table({f"{lr:g}": rows for lr, rows in evidence.results.group_by("lr").items()}, ("factor",))

    def figure(self, evidence) -> Figure:
        figure, (axes,) = row(1, width=4, height=3)
        draw_over(axes, {"all": evidence.results}, "lr", "factor")
        return figure
