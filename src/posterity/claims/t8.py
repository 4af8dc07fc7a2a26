"""T8: SGD over rate and momentum (source 000, section 5.3; optim.regions).

good        (ln 10 - nll) > 3/4 (ln 10 - nll of the best run): three quarters of what can be learnt was
upper edge  lr / (1 - mu) <= a                  against a rate alone, lr <= a
lower edge  lr / (1 - sqrt(mu))^2 >= 1 / h      against a rate alone, lr >= 1 / h

How well a curve of this kind parts good runs from others is told without placing it:

    parting = P(the score of a good run is lower than that of another)    1: wholly, 1/2: not at all
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.draws import GUESSING, SEED, Floats, Places, numbers, resampled
from posterity.claims.evidence import Evidence
from posterity.claims.thesis import BASE, NAMES, SMOKE_RUN, fewer
from posterity.claims.verdict import Check, Effect
from posterity.experiments.landscape import Landscape, landscape
from posterity.experiments.results import Results
from posterity.report.landscape_figure import landscape_figure

LEARNT = 0.75  # of what the best run learnt
PARTS = 0.75  # parting of a curve that is an edge
WHOLE, LOW = "whole", "low"
MOMENTUM = {"optimizer_options.momentum": {"uniform": [0.0, 0.99]}, "seed": SEED}
SGD = {**BASE, "optimizer": "sgd", "optimizer_sd": "sgd"}
DIGITS = {"cases": [{}], "run": {**SMOKE_RUN, "epochs": 1}, "samples": 2}
RECORD = ("accuracy", "nll", "kl", "loss")
SMALL = {"mnist": fewer("mnist", 20_000, epochs=1), "cifar10": fewer("cifar10", 4000, epochs=6)}


def _rates(highest: float, lowest: float = 1e-3) -> dict[str, dict[str, list[float]]]:
    return {"lr": {"uniform": [lowest, highest]}}


@claim("T8", source="000, figures 5.4 and 5.5")
class RateMomentum(Claim):
    """SGD's good rates and momenta are a bounded region: a straight line above, an edge like a robust region's below.

    Steps add up to lr / (1 - momentum) times the gradient: a largest stable one is the line lr + a momentum = a. The
    robust region of a curvature h begins at lr = (1 - sqrt(momentum))^2 / h. The source trains one epoch of MNIST and
    ten of CIFAR-10 with uniform rates and momenta. It sees a bounded region of good runs, draws the line (a = 1.9 and
    0.45) with a "region of death" beyond it, and the lower edge of robust regions (h = 1.5 and 2), with which the good
    region does not wholly coincide; that of CIFAR-10 is the smaller one.
    """

    studies = {
        WHOLE: {
            "run": SGD,
            "cases": [
                {"run": {"dataset": "mnist", "epochs": 1}, "axes": _rates(2.0)},
                {"run": {"dataset": "cifar10", "epochs": 10}, "axes": _rates(0.6)},
            ],
            "axes": MOMENTUM,
            "count": 400,
            "record": RECORD,
            "scales": {
                "paper": {},
                "cpu": {
                    "cases": [
                        {"run": SMALL["mnist"], "axes": _rates(0.8)},
                        {"run": SMALL["cifar10"], "axes": _rates(0.2)},
                    ],
                    "count": 75,
                    "samples": 2,
                },
                "smoke": {**DIGITS, "axes": _rates(2.0), "count": 8},
            },
        },
        LOW: {
            "run": SGD,
            "cases": [{"run": {"dataset": "mnist", "epochs": 1}}, {"run": {"dataset": "cifar10", "epochs": 10}}],
            "axes": {**_rates(6e-4, 3e-4), **MOMENTUM},
            "count": 200,
            "record": RECORD,
            "scales": {
                "paper": {},
                "cpu": {
                    "cases": [
                        {"run": SMALL["mnist"], "axes": _rates(2e-3, 1e-3)},
                        {"run": SMALL["cifar10"], "axes": _rates(14e-3, 7e-3)},
                    ],
                    "count": 48,
                    "samples": 2,
                },
                "smoke": {**DIGITS, "axes": _rates(0.1), "count": 6},
            },
        },
    }
    rule = (
        "A run is good if it learnt three quarters of what the best run on its data did, in nats of test nll below "
        "guessing. A curve's parting is the probability that a good run lies further inside than another, over the "
        "score that is constant along curves of its kind. On each data set: over the whole plane the parting of "
        f"straight lines, lr / (1 - momentum), is above {PARTS:g}, and above that of constant rates; in a strip of low "
        f"rates the parting of robust edges, lr / (1 - sqrt(momentum))^2, is above {PARTS:g}, and above that of "
        "constant rates. The fitted line's a on MNIST over that on CIFAR-10 is above 1."
    )
    departs = {
        "cpu": "20,000 images of MNIST instead of 60,000, 4,000 of CIFAR-10 for 6 epochs instead of 50,000 for 10, so "
        "180 and 216 steps instead of 600 and 5,000; the temperature keeps a datum's share of the KL as it was. Rates "
        "up to 0.8 and 0.2 (75 draws); as the lower edge is in a corner there, 48 more draws in a strip of low rates, "
        "where momentum decides (0.001 to 0.002 and 0.007 to 0.014); a third of the draws left the verdict "
        "open. The KL is analytic: at rho = -10 the path "
        "derivative adds noise of sd 1 / (sd p) to the gradient of each mean, and SGD diverges where it should do "
        "best. Lines and edges are fitted, where the source drew them by eye.",
        "paper": "The KL is analytic, since SGD diverges with the path derivative at rho = -10. 400 draws over the "
        "plane and 200 in a strip of low rates, as the source does not say how many it had; a tenth of the training "
        "data is held out.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """A data set after the other, then their lines."""
        found = []
        fits = _fits(evidence)
        for name, fit in fits.items():
            for words, edge in (("straight lines", fit.upper), ("robust edges", fit.lower)):
                found.append(Check.above(f"{name}: parting of {words}", edge.parting(), PARTS))
                found.append(Check.above(f"{name}: parting of {words} minus that of constant rates", edge.gain()))
        if len(fits) == 2:
            one, other = (fit.upper for fit in fits.values())
            words = f"a of the line, {' over '.join(fits)}"
            found.append(Check.above(words, ratio(one, other), 1.0))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a data set and an edge; the other curves are robust edges above, straight lines below."""
        heads = ["data, edge", "runs", "good", "fitted", "its parting", "constant rates", "other curves"]
        rows = []
        for name, fit in _fits(evidence).items():
            for words, edge, symbol, number in (
                ("line above", fit.upper, "a", fit.upper.place),
                ("robust edge below", fit.lower, "h", 1 / fit.lower.place),
            ):
                values = (parting(score, edge.good) for score in (edge.score, edge.rate, edge.other))
                counts = (str(len(edge.good)), str(int(edge.good.sum())), f"{symbol} = {number:.3g}")
                rows.append([f"{name}, {words}", *counts, *(f"{value:.3f}" for value in values)])
        return Table(heads, rows)

    def figure(self, evidence: Evidence) -> Figure:
        """The whole plane, and low rates; a row a data set."""
        panels, curvatures = {}, {}
        for name, fit in _fits(evidence).items():
            for title, results in ((name, fit.whole), (f"{name}, low rates", fit.low)):
                panels[title] = _surface(results, fit.threshold)
                if math.isfinite(fit.lower.place):
                    curvatures[title] = (float(f"{1 / fit.lower.place:.3g}"),)
        return landscape_figure(panels, curvatures=curvatures, line=list(_fits(evidence)), share=False, columns=2)


@dataclass(frozen=True)
class Edge:
    """Runs (n,), of which some are good, where those inside have a low `score`; `rate` and `other` are other scores."""

    good: NDArray[np.bool_]
    score: Floats
    rate: Floats
    other: Floats

    @property
    def place(self) -> float:
        """The score at which the edge lies."""
        return abs(best_edge(self.score, self.good))

    def parting(self) -> Effect:
        """Of curves of its kind."""
        return resampled(lambda pick: parting(self.score[pick], self.good[pick]), len(self.good))

    def gain(self) -> Effect:
        """How much better they part the runs than constant rates do."""

        def more(pick: Places) -> float:
            good = self.good[pick]
            return parting(self.score[pick], good) - parting(self.rate[pick], good)

        return resampled(more, len(self.good))


@dataclass(frozen=True)
class Fit:
    """A data set's runs, what is good there, and the two edges."""

    whole: Results
    low: Results
    threshold: float

    @property
    def upper(self) -> Edge:
        """Beyond it are the runs of the whole plane whose steps are too large."""
        lr, momentum, good = self._runs(self.whole)
        return Edge(good, lr / (1 - momentum), lr, lr / (1 + np.sqrt(momentum)) ** 2)

    @property
    def lower(self) -> Edge:
        """Below it are those at low rates that learn too slowly; a score that is low inside is the negative one."""
        lr, momentum, good = self._runs(self.low)
        return Edge(good, -lr / (1 - np.sqrt(momentum)) ** 2, -lr, -lr / (1 - momentum))

    def _runs(self, results: Results) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        good = numbers(results, "nll", failed=math.inf) < self.threshold
        return numbers(results, "lr"), numbers(results, "momentum"), good


def parting(score: Floats, good: NDArray[np.bool_]) -> float:
    """P(score of a good run < score of another), of equals a half; nan where all runs are alike."""
    if not good.any() or good.all():
        return math.nan
    one, other = score[good][:, None], score[~good]
    return float((one < other).mean() + (one == other).mean() / 2)


def best_edge(score: Floats, good: NDArray[np.bool_]) -> float:
    """Where P(inside | good) - P(inside | not good) is greatest, on scores (n,) of one sign, low inside; or nan.

    As `optim.fit_stable_rate` has it, for any score: midway between two runs in the logarithm.
    """
    if not good.any() or good.all():
        return math.nan
    order = np.argsort(score)
    score, good = score[order], good[order]
    gain = np.cumsum(good / good.sum() - ~good / (~good).sum())
    gain[:-1][score[:-1] == score[1:]] = -np.inf  # no edge parts equal runs
    best = int(gain.argmax())
    if best == len(score) - 1:
        return math.nan
    return float(np.sign(score[best]) * np.sqrt(score[best] * score[best + 1]))


def ratio(one: Edge, other: Edge) -> Effect:
    """The place of one edge over that of another; runs of both are resampled."""
    count = len(one.good)

    def places(pick: Places) -> float:
        mine, theirs = pick[pick < count], pick[pick >= count] - count
        above, below = (
            best_edge(edge.score[at], edge.good[at]) for edge, at in ((one, mine), (other, theirs))
        )  # fmt: skip
        return above / below

    return resampled(places, count + len(other.good))


def _fits(evidence: Evidence) -> dict[str, Fit]:
    found = {}
    low = evidence[LOW].group_by("dataset")
    for dataset, whole in evidence[WHOLE].group_by("dataset").items():
        best = min(float(numbers(results, "nll", failed=math.inf).min()) for results in (whole, low[dataset]))
        found[NAMES[dataset]] = Fit(whole, low[dataset], GUESSING - LEARNT * (GUESSING - best))
    return found


def _surface(results: Results, threshold: float) -> Landscape:
    """nll, as far as it is better than guessing: what is worse was not learnt, by however much."""
    found = landscape(results, "lr", "momentum", "nll", clip=0.0, success=threshold)
    return replace(found, z=np.minimum(found.z, GUESSING))
