"""W2: a penalty's factor from the variance of the initialisation        (source 004, application)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import mean_error
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Effect, over_seeds
from posterity.report.figures import BLUE, INK, ORANGE, row

NAMES = {
    "l2": "squared L2",
    "l1": "L1",
    "group_lasso_rows": "groups: rows",
    "group_lasso_columns": "groups: columns",
}
VARIANCES = {"glorot": "Glorot, 1/n", "edge-of-chaos": "Edge of Chaos, 2/n"}
EXACT, CHANCE = 1e-6, 0.02


@claim("W2", source="004, fixing the penalty factor")
class FactorsFromInitialisation(Claim):
    """A penalty's factor in a layer follows from the variance of its initialisation: n/2, sqrt(2n), sqrt((d + 1) n).

    The prior exp(-lambda r) is to have the variance 1/n that Glorot's rule gives the weights of a layer with n inputs.
    The source carries it out for the squared L2 norm; for the L1 norm and for groups of d weights the integrals have
    closed forms, too. They are held against adaptive quadrature, for every layer of LeNet-5, and against the variance
    of weights that are drawn from the prior. Beside it the variance 2/n of the Edge of Chaos, which the source
    names as a possible improvement.
    """

    studies = {
        "factors": {
            "function": "penalty_by_layer",
            "axes": {"penalty": list(NAMES), "variance": list(VARIANCES)},
            "seeds": 5,
            "scales": {
                "paper": {"parameters": {"model": "vgg11", "side": 32, "draws": 1}},
                "cpu": {"parameters": {"model": "lenet5", "side": 28}},
                "smoke": {
                    "parameters": {"model": "mlp", "side": 8, "draws": 1},
                    "axes": {"penalty": ["l2", "group_lasso_rows"], "variance": ["glorot"]},
                    "seeds": 2,
                },
            },
        }
    }
    curves = {"factors": ("inputs", "group", "theory", "computed", "sampled")}
    rule = (
        f"For each penalty and both variances: the factor found by quadrature is within {EXACT:g} (relative) of the "
        "closed form in every layer; the variance of weights drawn from the prior, relative to that of the "
        f"initialisation, is within ±{CHANCE:.0%} of 1, over seeds."
    )
    departs = {
        "cpu": "The source has only the squared L2 norm in closed form, and no experiment on it. Its example penalises "
        "the means of Gaussians; the factors here are those of point networks, the delta family.",
        "paper": "As at scale cpu, on the layers of VGG-11.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """A penalty after the other."""
        found = []
        for (penalty, variance), rows in evidence.results.group_by("penalty", "variance").items():
            name = f"{NAMES[penalty]}, {VARIANCES[variance]}"
            deviation = Effect.exact(max(rows.values("deviation")))
            found.append(Check.below(f"{name}: |quadrature / closed form - 1|", deviation, EXACT))
            drawn = over_seeds(rows, "sampled")
            found.append(Check.within(f"{name}: variance drawn / wanted - 1", drawn, -CHANCE, CHANCE))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a penalty and variance, with the factors of the layers."""
        rows = []
        for (penalty, variance), each in evidence.results.group_by("penalty", "variance").items():
            factors = ", ".join(f"{record['theory']:.4g}" for record in each[0].history)
            numbers = f"{max(each.values('deviation')):.1g}", mean_error(each, "sampled")
            rows.append([NAMES[penalty], VARIANCES[variance], factors, *numbers])
        heads = ["penalty", "variance", "factors by layer", "largest deviation of quadrature", "variance drawn - 1"]
        return Table(heads, rows)

    def figure(self, evidence: Evidence) -> Figure:
        """Factors over a layer's inputs: closed form (bars) and quadrature (crosses); a panel a penalty."""
        penalties = evidence.results.group_by("penalty")
        figure, panels = row(len(penalties), width=3.2, height=3.6)
        for axes, (penalty, rows) in zip(panels, penalties.items(), strict=True):
            for shift, (variance, each), colour in zip(
                (-0.2, 0.2), rows.group_by("variance").items(), (BLUE, ORANGE), strict=False
            ):
                records = each[0].history
                places = np.arange(len(records)) + shift
                theory, computed = ([r[name] for r in records] for name in ("theory", "computed"))
                axes.bar(places, theory, width=0.38, color=colour, alpha=0.75, label=VARIANCES[variance])
                label = "by quadrature" if shift < 0 else None
                axes.plot(places, computed, linestyle="", marker="x", color=INK, markersize=6, label=label)
            axes.set_xticks(range(len(records)), [f"n={r['inputs']:g}\nd={r['group']:g}" for r in records], fontsize=8)
            axes.set(xlabel="layer: inputs, group size")
            axes.set_title(NAMES[penalty], fontsize=11, color=INK)
        panels[0].set_ylabel("factor lambda")
        handles, _ = panels[0].get_legend_handles_labels()
        figure.legend(handles=handles, loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        return figure
