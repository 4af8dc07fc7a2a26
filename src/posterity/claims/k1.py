"""K1: the optimum of the ELBO at temperature 1 over the width        (source 002, first proposition)."""

from __future__ import annotations

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import Groups, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check
from posterity.claims.wide import TAU, at, by_width, draw_rings, draw_widths, slopes
from posterity.experiments.results import Results
from posterity.report.figures import row

STARTS = {4: 4, 16: 4, 64: 2, 256: 1, 1024: 1}
SMALL = 0.1  # nats, over all weights: by Pinsker's inequality q and prior are then within 0.23 in total variation
FALLS = -0.5
FITTED = "a fitted q"


@claim("K1", source="002, first proposition")
class UntemperedWidth(Claim):
    """Untempered, the optimal q of a one-hidden-layer network tends to its prior as the network grows wider.

    At temperature 1 the KL's term grows with the number of neurons N, the data's does not. The source proves that
    KL(q, prior) of the best mean-field q tends to 0, summed over all weights and not only by weight: a wide network
    forgets its data. Here the ELBO of a small regression is maximised over the width, without sampling, once from
    draws of the prior and once from a q that has been fitted to the data at a low temperature: should the fit be the
    better optimum, the second would stay there.
    """

    studies = {
        "optima": {
            "function": "mean_field_optimum",
            "seeds": 5,
            "scales": {
                "paper": {
                    "seeds": 20,
                    "cases": [
                        *by_width({**STARTS, 4096: 1, 16384: 1}, num_data=40),
                        *by_width({**STARTS, 4096: 1, 16384: 1}, num_data=400),
                        *by_width({**STARTS, 4096: 1}, num_data=40, fitted_at=TAU),
                    ],
                },
                "cpu": {
                    "parameters": {"iterations": 150},
                    "cases": [
                        *by_width(STARTS, num_data=40),
                        *by_width(STARTS, num_data=200),
                        *by_width(dict.fromkeys(STARTS, 1), num_data=40, fitted_at=TAU),
                    ],
                },
                "smoke": {
                    "seeds": 2,
                    "parameters": {"iterations": 20},
                    "cases": [
                        *by_width({4: 1, 16: 1}, num_data=20),
                        *by_width({4: 1, 16: 1}, num_data=20, fitted_at=TAU),
                    ],
                },
            },
        }
    }
    rule = (
        "For each number of data, over seeds: the slope of log KL(q, prior) at the optimum over log N is below "
        f"{FALLS} (the sum over all weights falls at least like 1/sqrt(N)), and at the widest network the KL is "
        f"below {SMALL} nats. Where the ascent began at a fitted q, the KL at the widest network is below this, too."
    )
    departs = {
        "cpu": "The source proves it and shows no experiment. Here: 40 and 200 data of a sine with Gaussian noise, "
        "4 to 1024 neurons, five seeds for data and start; the best of up to four ascents of L-BFGS stands "
        "for the optimum, of one at 256 and 1024 neurons.",
        "paper": "As the smaller scale, with 40 and 400 data, up to 16384 neurons and twenty seeds.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """A line of the figure after the other."""
        found = []
        for name, rows in _groups(evidence.results).items():
            widest = at(rows, "width", max(rows.column("width")), "kl")
            found.append(Check.below(f"{name}: KL at the widest network (nats)", widest, SMALL))
            if not name.endswith(FITTED):
                slope = slopes(rows, "width", "kl")
                found.append(Check.below(f"{name}: slope of log KL over log N", slope, FALLS))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a line and width."""
        groups = {
            f"{name}, N = {width}": rows
            for name, group in _groups(evidence.results).items()
            for width, rows in group.group_by("width").items()
        }
        return groups_table(groups, ("kl", "kl_per_weight", "nll", "gain"), head="data, neurons")

    def figure(self, evidence: Evidence) -> Figure:
        """KL, KL by weight, and nll over the width."""
        groups = _groups(evidence.results)
        lines = {name: rows for name, rows in groups.items() if not name.endswith(FITTED)}
        figure, (whole, each, data) = row(3, width=4.0, height=3.6)
        draw_widths(whole, lines, "kl", "KL(q, prior) at the optimum (nats)")
        draw_widths(each, lines, "kl_per_weight", "the same by weight (nats)")
        draw_widths(data, lines, "nll", "expected nll of a datum (nats)", log=False)
        for name in groups.keys() - lines.keys():
            for axes, metric in ((whole, "kl"), (each, "kl_per_weight"), (data, "nll")):
                draw_rings(axes, name, groups[name], "width", metric)
        whole.axhline(SMALL, color="grey", linewidth=1, linestyle=":")
        legend(figure)
        return figure


def _groups(results: Results) -> Groups:
    pairs = results.group_by("num_data", "fitted_at").items()
    return {f"p = {p}, from {FITTED if fitted else 'draws of the prior'}": rows for (p, fitted), rows in pairs}
