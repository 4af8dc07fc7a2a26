"""A1: AdaBayes' rates in a network that is trained        (source 001, figure 3)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import looks
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Effect, over_seeds
from posterity.experiments.results import Results
from posterity.report.figures import COLOURS, INK, row

CLOSE = 0.1  # log10: a quarter more or less
LIMIT = (0.8, 1.25)
GREEN, ORANGE, BLUE, PURPLE = COLOURS[2], COLOURS[1], COLOURS[0], COLOURS[3]


@claim("A1", source="001, figure 3")
class AdaBayesRates(Claim):
    """AdaBayes' rates follow the fixed point of its filter: SGD's where gradients are small, Adam's where large.

    For each weight of a ResNet-34 the source shows the rate s2_post that AdaBayes has come to over the one that Adam
    would have, eta / sqrt(<g^2>). The points have a tight vertical spread about the predicted fixed point; they are
    constant, s2, where Adam's rate is far above s2, and Adam's where it is far below. The fixed point itself takes g^2
    for constant: that it holds for the gradients of a network is what is measured.
    """

    studies = {
        "rates": {
            "function": "adabayes_rates",
            "parameters": {"dataset": "cifar10", "augmentation": "crop-flip"},
            "seeds": 3,
            "scales": {
                "paper": {"parameters": {"model": "resnet34", "width": 64, "steps": 58_500}},
                "cpu": {
                    "seeds": 8,
                    "parameters": {
                        "model": "cnn",
                        "width": 8,
                        "rows": 10_000,
                        "steps": 1100,
                        "lr": 0.01,
                        "lr_sgd": 5.0,
                    },
                },
                "smoke": {
                    "parameters": {"dataset": "digits", "augmentation": "crop", "rows": 500, "steps": 30},
                    "seeds": 2,
                },
            },
        }
    }
    curves = {"rates": ("place", "weights", "rate", "rate_low", "rate_high", "bias", "spread")}
    rule = (
        "Over seeds: in no bin of Adam's rate (a quarter of a decade, 50 weights at least) is the median rate further "
        f"than {CLOSE:g} in log10, a quarter, from the fixed point; the deciles of rate / fixed point are less than "
        f"{2 * CLOSE:g} apart in log10, averaged over bins; where Adam's rate is above 10 s2 the median rate is "
        f"{LIMIT[0]:g} to {LIMIT[1]:g} of s2, and where it is below s2 / 10, {LIMIT[0]:g} to {LIMIT[1]:g} of Adam's."
    )
    departs = {
        "cpu": "A convolutional network with 8 and 16 channels on 10,000 images of CIFAR-10, with crops and flips, "
        "instead of a ResNet-34 on all. The filter comes to rest in about s2 / eta^2 steps, 780 with the "
        "source's rates (0.001, 0.1), and so small a network has gradients too small for Adam's limit then: "
        "the rates are 0.01 and 5, with which it rests after 390 of the 1,100 steps. Batch size and decay "
        "are the source's. Eight seeds: three left the verdict open, five were added.",
        "paper": "The source does not say when it measured: here after 150 epochs, before the rates are cut.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """Bias, spread, and the two limits."""
        rows = evidence.results
        low, high = LIMIT
        return [
            Check.below("largest bias of a bin (log10)", over_seeds(rows, "bias"), CLOSE),
            Check.below("spread within bins (log10 between deciles)", over_seeds(rows, "spread"), 2 * CLOSE),
            Check.within("rate / s2 where Adam's rate is above 10 s2", _limit(rows, "sgd"), low, high),
            Check.within("rate / Adam's rate where that is below s2 / 10", _limit(rows, "adam"), low, high),
        ]

    def table(self, evidence: Evidence) -> Table:
        """A row a seed."""
        names = {
            "bias": "largest bias (log10)",
            "spread": "spread (log10)",
            "sgd": "rate / s2, small gradients",
            "adam": "rate / Adam's, large gradients",
            "share_sgd": "weights with small gradients",
            "share_adam": "with large ones",
        }
        rows = [[str(r.seed), *(f"{r.metrics[n]:.3g}" if n in r.metrics else "-" for n in names)]
                for r in evidence.results]  # fmt: skip
        return Table(["seed", *names.values()], rows)

    def figure(self, evidence: Evidence) -> Figure:
        """Rates over Adam's with both limits and the fixed point, as the source's; and how many weights are where."""
        figure, (left, right) = row(2, width=5.6, height=4.4)
        s2 = evidence.results[0].metrics["s2"]
        _draw_theory(left, evidence.results, s2)
        seeds = evidence.results.group_by("seed")
        for (seed, rows), (style, colour) in zip(seeds.items(), looks([str(s) for s in seeds]).values(), strict=True):
            records = rows[0].history
            place, middle, low, high, weights = (
                np.array([r[name] for r in records]) for name in ("place", "rate", "rate_low", "rate_high", "weights")
            )
            x, rate = s2 * 10**place, 10**middle
            bars = np.stack([rate - 10**low, 10**high - rate]).clip(0)
            label = "measured: median and deciles of a bin" if seed == next(iter(seeds)) else None
            left.errorbar(x, rate, yerr=bars, linestyle="", marker="o", markersize=4, color=INK, alpha=0.7,
                          elinewidth=1, label=label)  # fmt: skip
            right.plot(
                x,
                weights,
                color=colour,
                linestyle=style,
                marker="o",
                markersize=3.5,
                linewidth=1.5,
                label=f"seed {seed}",
            )
        label = "Adam's rate  eta / sqrt(<g²>)"
        left.set(xscale="log", yscale="log", xlabel=label, ylabel="AdaBayes' rate  s2_post")
        right.set(xscale="log", yscale="log", xlabel=label, ylabel="weights in a bin")
        right.axvline(s2, color=PURPLE, linewidth=1.2)
        left.legend(frameon=False, fontsize=9, loc="lower right")
        right.legend(frameon=False, fontsize=9, loc="upper right")
        return figure


def _limit(rows: Results, name: str) -> Effect:
    """Without a weight near that limit there is nothing to judge by."""
    return over_seeds(rows, name) if name in rows.columns["metrics"] else Effect.of([])


def _draw_theory(axes: Axes, results: Results, s2: float) -> None:
    places = [record["place"] for each in results for record in each.history]
    low, high = (min(places), max(places)) if places else (-1.0, 1.0)
    x = s2 * np.logspace(low - 0.3, high + 0.3, 200)
    steady = 1 / (0.5 / s2 + np.sqrt(0.25 / s2**2 + 1 / x**2))
    axes.plot(x, x, color=BLUE, linewidth=1.5, label="Adam's rate")
    axes.axhline(s2, color=ORANGE, linewidth=1.5, label="SGD's rate s2")
    axes.axvline(s2, color=PURPLE, linewidth=1.2, label="where the two are equal")
    axes.plot(x, steady, color=GREEN, linewidth=2, label="fixed point")
    axes.set_ylim(steady.min() / 2, 3 * s2)
