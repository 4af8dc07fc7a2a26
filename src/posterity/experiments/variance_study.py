"""How noisy the gradient of a run is, by estimator and kind: as it would begin, or as it was trained."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.estimators import ESTIMATORS
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import Run
from posterity.experiments.trained import load_run
from posterity.objectives import GRADIENTS, GradientVariance, check_estimate, gradient_variance
from posterity.objectives.baseline import LEAVE_ONE_OUT

# What may differ from a run that was trained; all else is that run's.
CHANGEABLE = ("temperature", "tau", "estimator", "gradient", "baseline", "samples", "batch_size", "seed")
DRAWS = 100


@dataclass(frozen=True)
class VarianceStudy:
    """Variances of a run's gradients on one batch of `rows`."""

    run: Run
    rows: int
    draws: int
    results: list[GradientVariance]

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.run.network_name} on {self.run.dataset}, batch of {self.rows}, {self.draws} draws"


def study_variance(given: dict[str, Any], *, draws: int = DRAWS, trained: Path | None = None) -> VarianceStudy:
    """Of the run that `given` describes, or of the one in `trained` with `given` changed.

    All estimators and gradients are measured but where one is given.
    """
    run, net = _network(given, trained)
    check_estimate(run.estimator, run.gradient, run.baseline if "baseline" in given else None, run.samples)
    if "baseline" in given and run.baseline != LEAVE_ONE_OUT:
        raise UsageError(f"a {run.baseline} baseline changes from step to step: only {LEAVE_ONE_OUT} is measured")
    results = batch_variances(
        run,
        net,
        draws=draws,
        estimators=[run.estimator] if "estimator" in given else ESTIMATORS,
        gradients=[run.gradient] if run.gradient and "gradient" in given else GRADIENTS,
    )
    kept = [r for r in results if "baseline" not in given or r.baseline == run.baseline]
    return VarianceStudy(run, _rows(run), draws, kept)


def batch_variances(
    run: Run, net: BayesianModule, *, draws: int, estimators: Collection[str], gradients: Collection[str]
) -> list[GradientVariance]:
    """Of a network that is the run's, on the first batch of its training data."""
    train, rows = build_data(run).train, _rows(run)
    assert net.likelihood is not None
    return gradient_variance(
        net,
        net.likelihood,
        train.x[:rows],
        train.y[:rows],
        num_data=len(train),
        draws=draws,
        samples=run.samples,
        estimators=estimators,
        gradients=gradients,
        temperature=run.temperature_rule.settled.bind(net, len(train))(0.0),
        seed=run.seed,
    )


def _rows(run: Run) -> int:
    return min(run.batch_size, len(build_data(run).train))


def _network(given: dict[str, Any], trained: Path | None) -> tuple[Run, BayesianModule]:
    if trained is None:
        run = Run.of(**given)
        return run, build_network(run, build_data(run).train)
    _refuse_fixed(given)
    loaded = load_run(trained)
    return Run.of(**{**loaded.run.model_dump(), **given}), loaded.net


def _refuse_fixed(given: Collection[str]) -> None:
    fixed = [f"--{name.replace('_', '-')}" for name in given if name not in CHANGEABLE]
    if fixed:
        raise UsageError(f"--run measures the run as it was trained; leave out {', '.join(fixed)}")
