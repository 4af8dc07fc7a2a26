"""T14: how wide the posterior is at its start,    sd = log(1 + e^rho)    (source 000, appendix A)."""

from __future__ import annotations

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import Groups, draw_curves, groups_table, legend
from posterity.claims.evidence import Evidence
from posterity.claims.thesis import BASE, SMOKE_RUN, as_far, fewer
from posterity.claims.verdict import Check, differences, over_seeds
from posterity.experiments.results import Results
from posterity.report.figures import row

LOW, CHOSEN, HIGH = -20.0, -10.0, -1.0
RHOS = [LOW, CHOSEN, -5.0, -3.0, HIGH]
SAME = 0.02  # accuracies that differ by less are alike
FREQUENTIST = 0.01  # nats of epistemic uncertainty below which a network is a frequentist one


@claim("T14", source="000, figure A.1")
class InitialRho(Claim):
    """Posteriors that begin too wide perform poorly, those that begin too narrow are frequentist; rho = -10 is between.

    The source starts all sds at log(1 + e^rho) and compares several rho on CIFAR-10. It takes -10 as a trade-off: a
    larger one impairs the accuracy, a smaller one leaves no uncertainty about the weights. Here the widest start has
    sds of 0.31, about four times the prior's, and the narrowest 2e-9. What is left of the uncertainty is measured by
    the epistemic part of the predictive's entropy on test data: nothing of it is a frequentist network.
    """

    studies = {
        "runs": {
            "run": BASE,
            "axes": {"rho": RHOS},
            "seeds": 5,
            "scales": {
                "paper": {"run": {"dataset": "cifar10", "epochs": 50}},
                "cpu": {
                    "run": fewer("cifar10", 2500, epochs=20, lr_ratio=as_far("cifar10", 2500)),
                    "samples": 8,
                },
                "smoke": {"run": SMOKE_RUN, "seeds": 2, "samples": 2},
            },
        }
    }
    curves = {"runs": ("val_accuracy", "nll", "kl")}
    rule = (
        f"Over seeds, paired where two are compared: accuracy at rho = {HIGH:g} minus that at {CHOSEN:g} is below 0; "
        f"accuracy at {CHOSEN:g} minus that at {LOW:g} is above -{SAME:.0%}; the epistemic uncertainty on test data is "
        f"below {FREQUENTIST:g} nats at {LOW:g} and above it at {CHOSEN:g}."
    )
    departs = {
        "cpu": "2,500 images of CIFAR-10 and 20 epochs. The temperature keeps a datum's share of the KL as it was, "
        "and the sds' rate is twenty times the means', so that rho gets as far in an epoch as it would in "
        "one of 50,000 images. The source does not list its values of rho, and shows one run of each; here "
        "are five seeds. Accuracies on test data are of 2,000 images with 8 weight samples.",
        "paper": "Five seeds instead of one; a tenth of the training data is held out for validation. The values of "
        "rho and the optimiser (Adam at 1e-3) are ours: the source does not list them.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """Too wide, then too narrow."""
        by = evidence.results.group_by("rho")
        wide = differences(by[HIGH], by[CHOSEN], "accuracy")
        narrow = differences(by[CHOSEN], by[LOW], "accuracy")
        return [
            Check.below(f"accuracy, rho = {HIGH:g} minus rho = {CHOSEN:g}", wide),
            Check.above(f"accuracy, rho = {CHOSEN:g} minus rho = {LOW:g}", narrow, -SAME),
            Check.below(f"epistemic uncertainty (nats), rho = {LOW:g}", over_seeds(by[LOW], "epistemic"), FREQUENTIST),
            Check.above(
                f"epistemic uncertainty (nats), rho = {CHOSEN:g}", over_seeds(by[CHOSEN], "epistemic"), FREQUENTIST
            ),
        ]

    def table(self, evidence: Evidence) -> Table:
        """A row a rho."""
        return groups_table(_groups(evidence.results), ("accuracy", "nll", "ece", "epistemic", "kl"), head="start")

    def figure(self, evidence: Evidence) -> Figure:
        """Validation accuracy, nll and KL by epoch, the curves of all rho over each other."""
        figure, axes = row(3, width=4.0, height=3.6)
        groups = _groups(evidence.results)
        for panel, number in zip(axes, ("val_accuracy", "nll", "kl"), strict=True):
            draw_curves(panel, groups, number, label={"nll": "training nll"}.get(number))
        axes[1].set_yscale("log")
        axes[2].set_yscale("log")
        legend(figure, columns=5)
        return figure


def _groups(results: Results) -> Groups:
    return {f"rho = {rho:g}": rows for rho, rows in results.group_by("rho").items()}
