"""K4: accuracy, nll, ECE and confidence against tau, one hidden layer on MNIST        (source 002, first figure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.cooling import (
    LANGEVIN,
    RULE,
    VI,
    cooling_checks,
    cooling_figure,
    cooling_table,
    of_samples,
    sizes,
)
from posterity.claims.drawing import Groups
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check
from posterity.claims.wide import TRAINED
from posterity.experiments.results import Results

ETAS = [1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
FEWER = {"train_rows": 5000, "test_rows": 2000}
SMOKE = {"dataset": "digits", "hidden": (8,), "train_rows": 200, "test_rows": 50, "epochs": 1}
SAMPLER = {
    **{name: TRAINED[name] for name in ("dataset", "model", "prior_scale", "batch_size")},
    "posterior": "point",
    "optimizer": "sgld",
    "schedule": "constant",
}


def _langevin(etas: list[float], num_data: int, drift: float) -> list[dict[str, Any]]:
    """Cases with rates at which the drift is SGD's with rate `drift` on the mean loss.

    The gradients of a network that averages N neurons are of order 1/N: the drift is a tenth of N.
    """
    return [{"run": {"temperature": eta, "lr": 2 * drift * eta / num_data}} for eta in etas]


@claim("K4", source="002, figure for MNIST")
class CoolingOneLayer(Claim):
    """For one hidden layer on MNIST the best temperature eta = tau p / N is well away from eta = 1.

    The source trains one-hidden-layer ReLU networks by Bayes by Backprop, with the prior N(0, 1/5), and draws accuracy,
    expected nll, ECE and confidence against tau, with a red line where eta = 1. It concludes that the ELBO has to be
    tempered in proportion to p / N. Langevin dynamics on the tempered posterior stands beside it as a reference that
    does not depend on the variational family; it is shown, not judged.
    """

    studies = {
        "runs": {
            "run": {**TRAINED, "hidden": (400,), "epochs": 50},
            "axes": {"temperature": ETAS},
            "seeds": 5,
            "scales": {
                "paper": {},
                "cpu": {"run": {**FEWER, "hidden": (100,), "epochs": 8}, "samples": 8},
                "smoke": {"run": SMOKE, "axes": {"temperature": [0.01, 1.0]}, "seeds": 2, "samples": 2},
            },
        },
        "langevin": {
            "run": {**SAMPLER, "hidden": (400,), "epochs": 200},
            "seeds": 3,
            "scales": {
                "paper": {"cases": _langevin([0.01, 0.1, 1.0, 10.0], 60_000, 40.0)},
                "cpu": {
                    "cases": _langevin([0.01, 0.1, 1.0, 10.0], 5000, 10.0),
                    "run": {**FEWER, "hidden": (100,), "epochs": 30},
                    "samples": 8,
                },
                "smoke": {"run": SMOKE, "cases": _langevin([0.01, 1.0], 200, 1.0), "seeds": 2, "samples": 2},
            },
        },
    }
    rule = RULE
    departs = {
        "cpu": "5,000 images instead of 60,000, 100 neurons, 8 epochs with Adam at 0.05 along a cosine (the source "
        "names neither width nor optimiser), five seeds. Langevin dynamics: 30 epochs, the samples of the second half, "
        "three seeds.",
        "paper": "400 neurons, 50 epochs, five seeds: the source names neither width, optimiser nor length.",
    }

    def measure(self, studies: Mapping[str, Results]) -> dict[str, Any]:
        """Weights and data, from which tau follows."""
        return sizes(studies["runs"])

    def checks(self, evidence: Evidence) -> list[Check]:
        """On variational inference alone."""
        return cooling_checks(evidence["runs"])

    def table(self, evidence: Evidence) -> Table:
        """A row a method and temperature."""
        return cooling_table(_groups(evidence), evidence.measured)

    def figure(self, evidence: Evidence) -> Figure:
        """Four metrics over tau."""
        return cooling_figure(_groups(evidence), evidence.measured)


def _groups(evidence: Evidence) -> Groups:
    return {VI: evidence["runs"], LANGEVIN: of_samples(evidence["langevin"])}
