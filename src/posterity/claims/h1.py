"""H1: Bayes by Backprop, Langevin dynamics and HWA's average on MNIST, by epoch (source 003, figure 1, top)."""

from __future__ import annotations

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import draw_curves, groups_table, legend, zoom
from posterity.claims.evidence import Evidence
from posterity.claims.hwa import (
    ANNEALING,
    BASE,
    BBB,
    HWA,
    ROWS,
    SGLD,
    fewer,
    langevin,
    methods,
    over_epochs,
    variational,
)
from posterity.claims.thesis import SMOKE_RUN
from posterity.claims.verdict import Check, Effect
from posterity.report.figures import row

RATE = 0.1
SAME = 0.02  # accuracies on MNIST that differ by less, on average over the epochs, are comparable
SMOKE_AVERAGE = {"average_every": 2, "temperature": ANNEALING * 270 / ROWS["mnist"]}  # of 270 rows
METHODS = [
    {"run": variational(RATE)},
    {"run": {**variational(RATE), "average_restart": True}},
    {"run": langevin(RATE, "mnist")},
]


@claim("H1", source="003, figure 1, top")
class ConvergenceOnMNIST(Claim):
    """LeNet-5 on MNIST: HWA and SGLD converge better than Bayes by Backprop, and are comparable to each other.

    A Gaussian posterior with one sd is trained by plain SGD on the negative ELBO (BBB); HWA averages its means along
    the training; SGLD samples the same posterior. The source draws loss and accuracy by epoch, averaged over 5
    repetitions, and finds HWA and SGLD comparable, both with better convergence than BBB. Here better convergence is a
    lower nll and a higher accuracy on held-out images, on average over the epochs from HWA's first on. HWA is judged as
    its algorithm 1 has it, beside the training; that the training goes on from the average, as the text around
    algorithm 2 says, is shown as well.
    """

    studies = {
        "runs": {
            "run": {
                **BASE,
                "dataset": "mnist",
                "model": "lenet5",
                "val_fraction": 1 / 12,
                "epochs": 50,
                "average_start": 0.2,
                "average_every": 100,
            },
            "cases": METHODS,
            "seeds": 5,
            "scales": {
                "paper": {},
                "cpu": {
                    "run": fewer("mnist", 8000, held=0.125, epochs=12, batch_size=50, average_every=35, test_rows=2000),
                    "samples": 8,
                },
                "smoke": {
                    "run": {
                        **SMOKE_RUN,
                        "val_fraction": 0.1,
                        "epochs": 4,
                        **SMOKE_AVERAGE,
                    },
                    "seeds": 2,
                    "samples": 2,
                },
            },
        }
    }
    curves = {"runs": ("val_nll", "val_accuracy", "val_average_nll", "val_average_accuracy")}
    rule = (
        "On held-out images, averaged over the epochs from the first on for which there is an average, paired by seed: "
        "nll of HWA's average minus that of BBB is below 0 and accuracy minus accuracy above 0; the same for SGLD's "
        "iterate minus BBB; accuracy of HWA minus that of SGLD is within "
        f"±{SAME:.0%}."
    )
    departs = {
        "cpu": "7,000 images to train on instead of 55,000, 12 epochs in batches of 50, four snapshots an epoch after "
        "the first fifth. The temperature is a tenth of Bayes' rule for 55,000 images: the source anneals, "
        "and does not say how much; without it BBB learns nothing here.",
        "paper": "Rate, temperature, batch, length and cycle are ours, as the source does not say them. BBB and HWA "
        "are the same training. 5,000 images are held out, as 55,000 are trained on.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """Each method against BBB, then the two."""
        groups = methods(evidence.results)
        nll, accuracy = (over_epochs(groups, f"val_{number}") for number in ("nll", "accuracy"))
        found = []
        for name in (HWA, SGLD):
            lower = Effect.of(nll[name] - nll[BBB])
            found.append(Check.below(f"held-out nll over the epochs, {name} minus BBB", lower))
            higher = Effect.of(accuracy[name] - accuracy[BBB])
            found.append(Check.above(f"held-out accuracy over the epochs, {name} minus BBB", higher))
        apart = Effect.of(accuracy[HWA] - accuracy[SGLD])
        return [*found, Check.within("held-out accuracy over the epochs, HWA minus SGLD", apart, -SAME, SAME)]

    def table(self, evidence: Evidence) -> Table:
        """A row a training, on test data: its last iterate (BBB, SGLD) and its average (HWA, SGLD's samples)."""
        groups = {name: rows for name, rows in methods(evidence.results).items() if name != HWA}
        named = {"BBB; its average is HWA" if name == BBB else name: rows for name, rows in groups.items()}
        return groups_table(named, ("nll", "accuracy", "average.nll", "average.accuracy"), head="training")

    def figure(self, evidence: Evidence) -> Figure:
        """Held-out loss and accuracy by epoch, as the source's."""
        figure, axes = row(2, width=5.4, height=3.6)
        for panel, number in zip(axes, ("nll", "accuracy"), strict=True):
            draw_curves(panel, methods(evidence.results), f"val_{number}", label=f"held-out {number}")
            zoom(panel, after=2)
        legend(figure)
        return figure
