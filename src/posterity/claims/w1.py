"""W1: priors recovered from penalties, and penalties that have none        (source 004, theorem and corollary)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Effect
from posterity.experiments.row import Row
from posterity.report.figures import BLUE, COLOURS, INK, ORANGE, VERMILLION, calm

NEAR = 0.02  # total variation: so much of the mass is elsewhere
SAME, DIFFERENT = 0.01, 0.1  # nats by which the A_nu differ
GREEN = COLOURS[2]
PANELS = ["gaussian", "laplace", "student", "mixture", "shifted"]
DEPENDENT = {"mean-square": "mu² / 2 alone", "mean-abs": "|mu| alone", "exchanged": "a and b exchanged",
             "cold": "half the entropy"}  # fmt: skip
ENDLESS = {"flat": "minus the entropy", "heavy": "KL to (1 + w²)^(-1/2)"}
NAMES = {
    **{name: f"KL to {name}" for name in PANELS},
    "shifted": "KL to gaussian, plus 3",
    "student": "KL to Student-t, df = 5",
    **DEPENDENT,
    **ENDLESS,
}


@claim("W1", source="004, theorem 2 and corollary")
class PriorsFromPenalties(Claim):
    """A penalty is a KL exactly if A_nu is free of nu and exp(A) has an integral; then exp(A) is its prior.

    A penalty r(mu, nu) of a translation-invariant family is put through Fourier transforms,
    A_nu = -entropy - F^-1[F r_nu / F q_{0,nu}]. If r is the KL to some prior, up to a constant, the theorem says that
    this prior comes back; and that there is none if A_nu depends on nu or exp(A) has no integral. So: the penalties of
    four priors must give them back; weight decay of the means alone, half the entropy, or the corollary's a and b in
    the printed (exchanged) places, must fail by the first condition; what falls too slowly by the second.
    """

    studies = {
        "penalties": {
            "function": "penalty_recovery",
            "cases": [
                {"parameters": {"family": "gaussian"}, "axes": {"penalty": [*PANELS, *DEPENDENT, *ENDLESS]}},
                {
                    "parameters": {"family": "laplace"},
                    "axes": {"penalty": [*PANELS, "mean-square", "mean-abs", "cold", "flat", "heavy"]},
                },
            ],
            "scales": {
                "paper": {},
                "cpu": {},
                "smoke": {
                    "cases": [
                        {
                            "parameters": {"family": "gaussian"},
                            "axes": {"penalty": ["gaussian", "laplace", "mean-square", "flat"]},
                        }
                    ]
                },
            },
        }
    }
    curves = {"penalties": ("w", "found", "true", "a1", "a2", "a3")}
    rule = (
        f"In the Gaussian and in the Laplace family: each KL's prior comes back with less than {NEAR:.0%} of its mass "
        f"elsewhere (total variation), with A_nu that differ by less than {SAME:g} nats. Each penalty that breaks the "
        f"first condition has A_nu that differ by more than {DIFFERENT:g} nats; each that breaks the second has A_nu "
        f"that differ by less than {SAME:g} nats, and no integral; neither is called a KL. Nothing is drawn."
    )
    departs = {
        "cpu": "The source proves it; here it is computed on a grid, in one dimension. Its corollary exchanges a and "
        "b: as printed they are among the penalties that must fail.",
        "paper": "As at scale cpu: the source has no experiment on this.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """A penalty after the other: one number each, that is exact."""
        found = []
        for each in evidence.results:
            penalty, name = each.config["penalty"], _name(each)
            dependence, is_kl, mass = (
                Effect.exact(each.metrics[number]) for number in ("dependence", "is_kl", "integrable")
            )
            if penalty in DEPENDENT:
                found.append(Check.above(f"{name}: difference of A_nu (nats)", dependence, DIFFERENT))
            else:
                found.append(Check.below(f"{name}: difference of A_nu (nats)", dependence, SAME))
            if penalty in PANELS:
                distance = Effect.exact(each.metrics.get("distance", 1.0))
                found.append(Check.below(f"{name}: distance from the prior", distance, NEAR))
                found.append(Check.above(f"{name}: called a KL", is_kl, 0.5))
            else:
                found.append(Check.below(f"{name}: called a KL", is_kl, 0.5))
            if penalty in ENDLESS:
                found.append(Check.below(f"{name}: exp(A) has an integral", mass, 0.5))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a penalty."""
        rows = []
        for each in evidence.results:
            m = each.metrics
            distance = f"{m['distance']:.2g}" if "distance" in m else "-"
            words = ["yes" if m[number] else "no" for number in ("integrable", "is_kl")]
            rows.append([_name(each), f"{m['dependence']:.2g}", *words, distance])
        return Table(["family, penalty", "A_nu differ by (nats)", "exp(A) has an integral", "a KL", "distance"], rows)

    def figure(self, evidence: Evidence) -> Figure:
        """Gaussian family: priors that came back, and A_nu of penalties that have none."""
        shown = [each for each in evidence.results if each.config["family"] == "gaussian"]
        shown = [each for each in shown if each.config["penalty"] != "shifted"]
        columns = min(5, len(shown))
        lines = -(-len(shown) // columns)
        figure = Figure(figsize=(2.6 * columns, 0.5 + 2.7 * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes, each in zip(grid, shown, strict=False):
            calm(axes)
            _draw_prior(axes, each) if each.config["penalty"] in PANELS else _draw_candidates(axes, each)
            verdict, colour = ("a KL", GREEN) if each.metrics["is_kl"] else ("not a KL", VERMILLION)
            axes.set_title(f"{NAMES[each.config['penalty']]}:\n{verdict}", fontsize=9.5, color=colour)
            axes.set_xlabel("weight w", fontsize=9)
            axes.legend(frameon=False, fontsize=7.5, handlelength=1.4)
        for axes in grid[len(shown) :]:
            axes.set_visible(False)
        return figure


def _name(each: Row) -> str:
    return f"{each.config['family'].capitalize()}, {NAMES[each.config['penalty']]}"


def _draw_prior(axes: Axes, each: Row) -> None:
    w, true = ([float(record[name]) for record in each.history] for name in ("w", "true"))
    axes.plot(w, true, color=ORANGE, linewidth=3.5, alpha=0.6, label="the prior")
    if "found" in each.history[0]:
        axes.plot(w, [record["found"] for record in each.history], color=BLUE, linewidth=1.4, label="recovered")
    axes.set_ylim(bottom=0, top=1.35 * max(true))
    axes.set_ylabel("density", fontsize=9)


def _draw_candidates(axes: Axes, each: Row) -> None:
    for number, nu, colour, style in ((1, 0.1, BLUE, "-"), (2, 0.2, ORANGE, "--"), (3, 0.4, GREEN, ":")):
        values = [record[f"a{number}"] for record in each.history]
        w = [record["w"] for record in each.history]
        axes.plot(w, values, color=colour, linestyle=style, linewidth=1.6, label=f"A at nu = {nu:g}")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high - 0.5), high + 0.45 * max(high - low, 0.5))
    axes.set_ylabel("A (nats)", fontsize=9)
    axes.spines["left"].set_color(INK)
