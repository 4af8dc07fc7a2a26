"""T10: means and standard deviations trained in turn (source 000, section 5.4)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import Groups, draw_curves, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.thesis import BASE, SMOKE_RUN, fewer
from posterity.claims.verdict import Check, Effect, differences
from posterity.experiments.results import Floats, Results
from posterity.report.figures import FAINT, row

SAME = 0.03  # accuracies on CIFAR-10 that differ by less are more or less the same
MEANS, SDS = 0, 1  # whose turn it is


@claim("T10", source="000, figure 5.8")
class AlternatingGroups(Claim):
    """Training the means lowers the nll, training the sds lowers the KL; taken in turn, they end as accurate.

    For some epochs only the means are trained, for as many only the standard deviations, and so on. The source compares
    one such training on CIFAR-10 with a conventional one, in which both groups are trained in every step: the nll falls
    while the means are trained and the KL while the standard deviations are, and both trainings end with more or less
    the same accuracy. It does not say how many epochs a turn has.
    """

    studies = {
        "runs": {
            "run": {**BASE, "dataset": "cifar10", "epochs": 50, "gradient": "path"},
            "axes": {"alternate": [None, 5]},
            "seeds": 5,
            "scales": {
                "paper": {},
                "cpu": {
                    "run": fewer("cifar10", 5000, epochs=16, batch_size=20, rho=-4.0),
                    "axes": {"alternate": [None, 4]},
                    "samples": 8,
                },
                "smoke": {
                    "run": {**SMOKE_RUN, "epochs": 4},
                    "axes": {"alternate": [None, 1]},
                    "seeds": 2,
                    "samples": 2,
                },
            },
        }
    }
    curves = {"runs": ("val_accuracy", "nll", "kl")}
    rule = (
        "Of the alternating trainings, from their second turn on, a number a seed: the training nll's change in an "
        "epoch of the means' turns is below 0, and below that of the standard deviations' turns; the KL's change in "
        "an epoch of the standard deviations' turns is below 0, and below that of the means' turns. Accuracy on test "
        f"data, alternating minus conventional, paired by seed, is within ±{SAME:.0%}."
    )
    departs = {
        "cpu": "5,000 images instead of all, in batches of 20 (more steps for the time), 16 epochs, turns of 4 "
        "epochs; the temperature keeps a datum's share of the KL as it was. With fewer steps rho starts at "
        "-4 instead of -10: so the standard deviations can reach the prior's size within the conventional "
        "training, as they can in the source. The source shows one run of each; here are five seeds. An "
        "epoch's nll is a mean over its steps, so that the end of a turn of the means is seen in the first "
        "epoch after it. Accuracies on test data are of 2,000 images with 8 weight samples; the source has "
        "one sample, as have the curves.",
        "paper": "Turns of 5 epochs; five seeds instead of one; a tenth of the training data is held out for "
        "validation.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """What each turn changes, and where it ends."""
        conventional, alternating = _kinds(evidence.results)
        nll, kl = (changes(alternating, number) for number in ("nll", "kl"))
        accuracy = differences(alternating, conventional, "accuracy")
        return [
            Check.below("nll's change in an epoch of the means", Effect.of(nll[MEANS])),
            Check.below("nll's change in an epoch: means minus sds", Effect.of(nll[MEANS] - nll[SDS])),
            Check.below("KL's change (nats) in an epoch of the sds", Effect.of(kl[SDS])),
            Check.below("KL's change (nats) in an epoch: sds minus means", Effect.of(kl[SDS] - kl[MEANS])),
            Check.within("accuracy, alternating minus conventional", accuracy, -SAME, SAME),
        ]

    def table(self, evidence: Evidence) -> Table:
        """A row a way of training."""
        return groups_table(_groups(evidence.results), ("accuracy", "nll", "train_nll", "kl", "loss"), head="groups")

    def figure(self, evidence: Evidence) -> Figure:
        """Accuracy, nll and KL by epoch; the epochs of the standard deviations are grey."""
        figure, axes = row(3, width=4.2, height=3.4)
        turn = _kinds(evidence.results)[1][0].config["alternate"]
        for panel, number in zip(axes, ("val_accuracy", "nll", "kl"), strict=True):
            draw_curves(panel, _groups(evidence.results), number, label="training nll" if number == "nll" else None)
            left, right = panel.get_xlim()
            for start in range(turn, int(right), 2 * turn):
                panel.axvspan(
                    start + 0.5, min(start + turn + 0.5, right), color=FAINT, alpha=0.5, linewidth=0, zorder=0
                )
            panel.set_xlim(left, right)
        axes[0].set_title("grey: turns of the standard deviations", fontsize=9, loc="left")
        legend(figure)
        return figure


def changes(rows: Results, number: str) -> tuple[Floats, Floats]:
    """Per epoch, how a number changes in the means' and in the standard deviations' turns: (runs,) each, by run.

    A turn's change is from the last epoch before it to its own last: so the first one, before which there is nothing,
    is left out.
    """
    turn = int(rows[0].config["alternate"])
    _, values = rows.histories(number)
    ends = values[:, turn - 1 :: turn]  # after each whole turn
    steps = np.diff(ends, axis=1) / turn  # of turns 1, 2, ...: the standard deviations', the means', ...
    return steps[:, 1::2].mean(1), steps[:, 0::2].mean(1)


def _kinds(results: Results) -> tuple[Results, Results]:
    return results.where(alternate=None), results.where(alternate=lambda turn: turn is not None)


def _groups(results: Results) -> Groups:
    return dict(zip(("together", "in turn"), _kinds(results), strict=True))
