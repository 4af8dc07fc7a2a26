"""H2: Bayes by Backprop, Langevin dynamics and HWA's average of a VGG on CIFAR-10 (source 003, figure 1, bottom)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import draw_curves, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.hwa import BASE, BBB, HWA, SGLD, methods, of_average, variational
from posterity.claims.thesis import SMOKE_RUN
from posterity.claims.verdict import Check, Effect
from posterity.experiments.results import Floats, Results
from posterity.report.figures import row

RATE = 0.05  # with which the library's SGLD drifts by default, whatever the temperature


@claim("H2", source="003, figure 1, bottom")
class GeneralisationOfVGG(Claim):
    """VGG on CIFAR-10: HWA generalises better than Bayes by Backprop and than SGLD.

    The same three methods as on MNIST, with a VGG and with Flipout's noise. The source finds that HWA overfits the
    training data in terms of the loss, but seems to generalise better to unseen data, which the last panel of its
    figure shows: the accuracy on test data. So the accuracy is judged; the nll is in the table.
    """

    studies = {
        "runs": {
            "run": {
                **BASE,
                "dataset": "cifar10",
                "model": "vgg11",
                "temperature": "per-weight",
                "tau": 0.1,
                "val_fraction": 0.1,
                "epochs": 100,
                "average_start": 0.25,
            },
            "cases": [
                {"run": {**variational(RATE), "estimator": "flipout"}},
                {"run": {"posterior": "point", "optimizer": "sgld"}},
            ],
            "seeds": 5,
            "scales": {
                "paper": {},
                "cpu": {
                    "run": {
                        "model_options": {"width": 8, "batch_norm": True},
                        "train_rows": 5000,
                        "test_rows": 2000,
                        "batch_size": 50,
                        "epochs": 16,
                        "average_every": 45,
                    },
                    "samples": 8,
                },
                "smoke": {
                    "run": {**SMOKE_RUN, "val_fraction": 0.1, "epochs": 4, "temperature": "per-weight"},
                    "seeds": 2,
                    "samples": 2,
                },
            },
        }
    }
    curves = {"runs": ("val_nll", "val_accuracy", "val_average_nll", "val_average_accuracy")}
    rule = (
        "Paired by seed, on test data: accuracy of HWA's average minus that of BBB's last iterate is above 0, and so "
        "is accuracy of HWA's average minus that of SGLD's collected samples."
    )
    departs = {
        "cpu": "A VGG-11 an eighth as wide, with batch norm so that it learns in few steps, on "
        "5,000 images, 16 epochs in batches of 50, a snapshot every half epoch in the last three quarters. The "
        "temperature is a tenth of rows/weights: the source anneals, and does not say how much.",
        "paper": "VGG-11; the source does not say which VGG, nor rate, temperature, batch, length and cycle. BBB and "
        "HWA are the same training. A tenth of the training data is held out for the curves.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """HWA against the two others."""
        groups = methods(evidence.results)
        bbb, sgld = groups[BBB], groups[SGLD]
        ours = _by_seed(bbb, "average.accuracy")
        return [
            Check.above("accuracy, HWA minus BBB", Effect.of(ours - _by_seed(bbb, "accuracy"))),
            Check.above("accuracy, HWA minus SGLD's samples", Effect.of(ours - _by_seed(sgld, "average.accuracy"))),
        ]

    def table(self, evidence: Evidence) -> Table:
        """A row a training, on test data: its last iterate (BBB, SGLD) and its average (HWA, SGLD's samples)."""
        groups = methods(evidence.results)
        named = {"BBB; its average is HWA": groups[BBB], "SGLD; its average are the samples": groups[SGLD]}
        metrics = ("accuracy", "nll", "average.accuracy", "average.nll", "train_nll")
        return groups_table(named, metrics, head="training")

    def figure(self, evidence: Evidence) -> Figure:
        """Held-out loss and accuracy by epoch, as the source's."""
        groups = methods(evidence.results)
        drawn = {BBB: groups[BBB], HWA: groups[HWA], SGLD: groups[SGLD], "SGLD's samples": of_average(groups[SGLD])}
        figure, axes = row(2, width=5.4, height=3.6)
        for panel, number in zip(axes, ("nll", "accuracy"), strict=True):
            draw_curves(panel, drawn, f"val_{number}", label=f"held-out {number}")
        legend(figure)
        return figure


def _by_seed(rows: Results, metric: str) -> Floats:
    """The metric of each row, in order of seed."""
    return np.array(rows.column(metric), dtype=np.float64)
