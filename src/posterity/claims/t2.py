"""T2: a Bayesian network plainly trained with Adam beside a frequentist one        (source 000, figure 1.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import Groups, draw_curves, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.thesis import BASE, FREQUENTIST, NAMES, SMOKE_RUN, as_far, fewer
from posterity.claims.verdict import Check, Effect, differences
from posterity.experiments.results import Results
from posterity.report.figures import row

KINDS = {"point": "frequentist", "mean_field": "Bayesian"}


def _both(run: dict[str, Any], **bayesian: Any) -> list[dict[str, Any]]:
    """A frequentist run and a Bayesian one, with what concerns the latter alone."""
    return [{"run": {**run, **FREQUENTIST}}, {"run": {**run, **bayesian}}]


@claim("T2", source="000, figure 1.2")
class PlainTraining(Claim):
    """Plainly trained with Adam, a Bayesian network learns slower than a frequentist one and ends below it.

    Both are LeNet-5 and trained with Adam alone: no schedule, no other technique. The source shows accuracies by epoch
    on MNIST and CIFAR-10, the Bayesian network's below the frequentist one's, as the reason for its whole study. How
    slow a network learns is measured by its validation accuracy averaged over the epochs.
    """

    studies = {
        "runs": {
            "run": BASE,
            "cases": [
                *_both({"dataset": "mnist", "epochs": 50}, temperature=1.0),
                *_both({"dataset": "cifar10", "epochs": 50}, temperature=1.0),
            ],
            "seeds": 5,
            "scales": {
                "paper": {},
                "cpu": {
                    "cases": [
                        *_both(fewer("mnist", 5000, epochs=14), lr_ratio=as_far("mnist", 5000)),
                        *_both(fewer("cifar10", 5000, epochs=14), lr_ratio=as_far("cifar10", 5000)),
                    ],
                    "samples": 8,
                },
                "smoke": {"cases": _both({}), "run": SMOKE_RUN, "seeds": 2, "samples": 2},
            },
        }
    }
    curves = {"runs": ("val_accuracy", "nll")}
    rule = (
        "On each data set, paired by seed: accuracy on test data, Bayesian minus frequentist, is below 0; and so is "
        "the difference of the validation accuracies averaged over all epochs."
    )
    departs = {
        "cpu": "5,000 images of each data set instead of all, 14 epochs, five seeds. The temperature keeps a "
        "datum's share of the KL as it was, and the sds' rate is larger by as much as the steps of an epoch are fewer, "
        "so that rho gets as far in an epoch. Accuracies on test data are of 2,000 images with 8 samples.",
        "paper": "Five seeds instead of one; a tenth of the training data is held out for validation. The source does "
        "not say the rate (1e-3 here, as in its figure 5.1) or the number of epochs.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """A data set after the other: the end, then the way."""
        found = []
        for dataset, rows in evidence.results.group_by("dataset").items():
            by = rows.group_by("posterior")
            end = differences(by["mean_field"], by["point"], "accuracy")
            found.append(Check.below(f"{NAMES[dataset]}: accuracy, Bayesian minus frequentist", end))
            ours, theirs = _courses(by["mean_field"]), _courses(by["point"])
            way = Effect.of(ours[seed] - theirs[seed] for seed in ours)
            found.append(Check.below(f"{NAMES[dataset]}: validation accuracy averaged over epochs, the same", way))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a data set and kind."""
        return groups_table(_groups(evidence.results), ("accuracy", "nll", "ece"), head="data, network")

    def figure(self, evidence: Evidence) -> Figure:
        """Validation accuracy by epoch, a panel a data set, as the source's; beside it the training nll."""
        sets = evidence.results.group_by("dataset")
        figure, axes = row(2 * len(sets), width=3.2, height=3.3)
        for place, (dataset, rows) in enumerate(sets.items()):
            groups = {KINDS[kind]: each for kind, each in rows.group_by("posterior").items()}
            draw_curves(axes[2 * place], groups, "val_accuracy")
            draw_curves(axes[2 * place + 1], groups, "nll", label="training nll")
            for panel in axes[2 * place : 2 * place + 2]:
                panel.set_title(NAMES[dataset], fontsize=10)
        legend(figure)
        return figure


def _courses(rows: Results) -> dict[int, float]:
    """The validation accuracy averaged over epochs, by seed."""
    _, values = rows.histories("val_accuracy")
    return {each.seed: float(np.mean(course)) for each, course in zip(rows, values, strict=True)}


def _groups(results: Results) -> Groups:
    pairs = results.group_by("dataset", "posterior").items()
    return {f"{NAMES[dataset]}, {KINDS[kind]}": rows for (dataset, kind), rows in pairs}
