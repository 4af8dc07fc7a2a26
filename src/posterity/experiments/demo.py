"""The demonstration: the same network Bayesian and frequentist, on the digits that come with scikit-learn."""

from __future__ import annotations

from posterity.experiments.run import Run


def demo_runs(epochs: int = 60, seed: int = 0) -> dict[str, Run]:
    """A Bayesian and a frequentist LeNet-5 that differ in their posterior alone."""
    bayesian = Run(dataset="digits", model="lenet5", epochs=epochs, seed=seed)
    frequentist = bayesian.model_copy(update={"posterior": "point", "temperature": 0.0})
    return {"Bayesian": bayesian, "frequentist": frequentist}
