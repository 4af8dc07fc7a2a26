"""What the experiments of source 000 share (its section 4.2), and how they are made smaller.

LeNet-5, batches of 100, priors N(0, Kaiming), means from PyTorch's uniform law, rho = -10, one sample a step, no
schedule, the KL at its full weight in the objective divided by the number of data. The source validates on the test
set, with one sample; here a held-out part of the training data is validated on after each epoch, the test data once.

With fewer rows the same KL would weigh more against the data than it did there. So a smaller run has the temperature
rows / 60000 (MNIST) or rows / 50000 (CIFAR-10): a datum's share of the KL is then the source's.
"""

from __future__ import annotations

from typing import Any

ROWS = {"mnist": 60_000, "cifar10": 50_000}
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "digits": "digits"}

BASE: dict[str, Any] = {
    "model": "lenet5",
    "batch_size": 100,
    "init": "uniform",
    "prior_scale": "kaiming",
    "rho": -10.0,
    "temperature": 1.0,
    "schedule": "constant",
    "optimizer": "adam",
    "lr": 1e-3,
    "optimizer_sd": "adam",
    "lr_ratio": 1.0,
    "val_fraction": 0.1,
    "val_samples": 1,
}

# Seconds on a laptop: a tiny network on scikit-learn's digits.
SMOKE_RUN: dict[str, Any] = {
    "dataset": "digits",
    "model": "mlp",
    "hidden": (16,),
    "train_rows": 300,
    "test_rows": 100,
    "batch_size": 50,
    "epochs": 2,
    "temperature": 300 / 60_000,
}


def fewer(dataset: str, rows: int, **settings: Any) -> dict[str, Any]:
    """A run on `rows` rows of a data set, a tenth of them held out, with a datum's share of the KL as in the source."""
    held = BASE["val_fraction"]
    return {
        "dataset": dataset,
        "train_rows": rows,
        "test_rows": 2000,
        "temperature": (1 - held) * rows / ROWS[dataset],
        **settings,
    }


# What makes a run of BASE a frequentist one: a point for a posterior, maximum likelihood, nothing that goes with sds.
FREQUENTIST: dict[str, Any] = {
    "posterior": "point",
    "temperature": 0.0,
    "rho": None,
    "optimizer_sd": None,
    "lr_ratio": None,
}


def as_far(dataset: str, rows: int, *, shorter: float = 1.0) -> float:
    """The ratio of the sds' rate to the means' with which rho gets as far in an epoch of fewer rows as in the source.

    From rho = -10, Adam moves rho by about its rate a step, and an epoch of a tenth of the rows has a tenth of the
    steps: without this, small runs would stay where sds are too small to make any difference. Where the epochs are
    fewer too, `shorter` times, it gets as far in the whole training.
    """
    return round(shorter * ROWS[dataset] / rows, 3)


# Both data sets, as in the source, and smaller: cases of a study.
WHOLE: list[dict[str, Any]] = [{"run": {"dataset": name, "epochs": 50}} for name in ROWS]
SMALL: list[dict[str, Any]] = [{"run": fewer(name, 5000, epochs=14, lr_ratio=as_far(name, 5000))} for name in ROWS]
