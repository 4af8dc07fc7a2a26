"""K5: accuracy, nll, ECE and confidence against tau, ResNet-20 on CIFAR-10        (source 002, second figure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.cooling import RULE, VI, cooling_checks, cooling_figure, cooling_table, sizes
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check
from posterity.experiments.results import Results
from posterity.models.mean_field_net import INIT_VARIANCE

BASE = {
    "dataset": "cifar10",
    "model": "resnet20",
    "prior_scale": INIT_VARIANCE**0.5,
    "rho": -5.0,
    "optimizer": "adam",
    "lr": 5e-3,
    "optimizer_sd": "adam",
    "lr_sd": 0.05,
    "batch_size": 100,
    "epochs": 200,
}
SMALL = {"model_options": {"width": 4}, "train_rows": 2000, "test_rows": 1000, "batch_size": 50, "epochs": 5}
SMOKE = {
    "dataset": "digits",
    "model_options": {"width": 1},
    "train_rows": 60,
    "test_rows": 20,
    "batch_size": 60,
    "epochs": 1,
}


@claim("K5", source="002, figure for CIFAR-10")
class CoolingResNet(Claim):
    """For ResNet-20 on CIFAR-10 the best temperature eta = tau p / N is well away from eta = 1.

    The experiment of K4 with a deep network, for which the source has no theory: it says that the scaling tau p / N
    carries over to architectures far from one hidden layer. Prior N(0, 1/5) on all weights, Bayes by Backprop.
    """

    studies = {
        "runs": {
            "run": BASE,
            "axes": {"temperature": [1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0]},
            "seeds": 3,
            "scales": {
                "paper": {"run": {"augmentation": "crop-flip"}},
                "cpu": {"run": SMALL, "axes": {"temperature": [1e-3, 0.01, 0.1, 1.0, 10.0]}, "samples": 4},
                "smoke": {"run": SMOKE, "axes": {"temperature": [0.01, 1.0]}, "seeds": 2, "samples": 2},
            },
        }
    }
    rule = RULE
    departs = {
        "cpu": "A quarter of the channels (width 4), 2,000 images, 5 epochs of 40 batches, no augmentation: a network "
        "far from the source's accuracy, in which the order of temperatures is what is asked. Three seeds.",
        "paper": "200 epochs with Adam, random crops and flips, three seeds: the source names none of these.",
    }

    def measure(self, studies: Mapping[str, Results]) -> dict[str, Any]:
        """Weights and data, from which tau follows."""
        return sizes(studies["runs"])

    def checks(self, evidence: Evidence) -> list[Check]:
        """As K4's."""
        return cooling_checks(evidence.results)

    def table(self, evidence: Evidence) -> Table:
        """A row a temperature."""
        return cooling_table({VI: evidence.results}, evidence.measured)

    def figure(self, evidence: Evidence) -> Figure:
        """Four metrics over tau."""
        return cooling_figure({VI: evidence.results}, evidence.measured)
