"""`posterity gradient-variance`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from posterity.bayesian import BayesianModule
from posterity.cli.output import note, print_json, print_table
from posterity.cli.train import configure, parse, run_options, set_options
from posterity.core.errors import UsageError
from posterity.estimators import ESTIMATORS
from posterity.experiments import Run, load_run
from posterity.experiments.build import build_data, build_network
from posterity.objectives import GRADIENTS, GradientVariance, check_estimate, gradient_variance
from posterity.objectives.baseline import LEAVE_ONE_OUT
from posterity.objectives.tempering import as_rule
from posterity.report import save, variance_bars

# What may differ from the run that --run names; all else is that run's.
CHANGEABLE = ("temperature", "tau", "estimator", "gradient", "baseline", "samples", "batch_size", "seed")


def gradient_variance_command(**options: Any) -> None:
    """How noisy the gradient is by --estimator and --gradient (all of them by default), and what a draw costs.

    On one batch, with the weights a training would start from, or with those of a trained run (--run). Kinds that the
    network does not have are left out.

    Example: posterity gradient-variance --dataset digits --model lenet5 --draws 50 --figure variance.png
    """
    draws: int = options.pop("draws")
    trained: Path | None = options.pop("run")
    figure: Path = options.pop("figure")
    as_json = options.pop("json")
    given = {name: parse(name, value) for name, value in options.items() if value is not None}
    run, net = _network(given, trained)
    if "baseline" in given:
        check_estimate(run.estimator, run.gradient, run.baseline, run.samples)
        if run.baseline != LEAVE_ONE_OUT:
            raise UsageError(f"a {run.baseline} baseline changes from step to step: only {LEAVE_ONE_OUT} is measured")
    train = build_data(run).train
    if net.likelihood is None:
        raise UsageError("the network has no likelihood")
    settled = as_rule(run.settings()["temperature"]).settled.bind(net, len(train))(0.0)
    index = slice(0, min(run.batch_size, len(train)))
    results = gradient_variance(
        net,
        net.likelihood,
        train.x[index],
        train.y[index],
        num_data=len(train),
        draws=draws,
        samples=run.samples,
        estimators=[run.estimator] if "estimator" in given else ESTIMATORS,
        gradients=[run.gradient] if run.gradient and "gradient" in given else GRADIENTS,
        temperature=settled,
        seed=run.seed,
    )
    results = [r for r in results if "baseline" not in given or r.baseline == run.baseline]
    title = f"{run.model} on {run.dataset}, batch of {index.stop}, {draws} draws"
    save(variance_bars({r.name: r.variance for r in results}, title), figure)
    if as_json:
        print_json([r.as_dict() for r in results])
        return
    print_table(title, _columns(results), [_row(r) for r in results])
    note("variance: summed over the gradient's components")
    note("norm: of the expected gradient; beside a large variance it is noise, or 0")
    note(f"figure: {figure}")


def _network(given: dict[str, Any], trained: Path | None) -> tuple[Run, BayesianModule]:
    if trained is None:
        run = configure(given, config=None, resume_from=None)
        return run, build_network(run, build_data(run).train)
    fixed = [f"--{name.replace('_', '-')}" for name in given if name not in CHANGEABLE]
    if fixed:
        raise UsageError(f"--run measures the run as it was trained; leave out {', '.join(fixed)}")
    loaded = load_run(trained)
    return Run.of(**{**loaded.run.model_dump(), **given}), loaded.net


def _columns(results: list[GradientVariance]) -> list[str]:
    groups = [f"{name}\n{kind}" for name in results[0].variance for kind in ("variance", "norm")]
    return ["", *groups, "ms a\ndraw", "rel.\ntime"]


def _row(result: GradientVariance) -> list[str]:
    groups = [part[name] for name in result.variance for part in (result.variance, result.norm)]
    numbers = [*groups, 1e3 * result.seconds, result.relative_time]
    return [result.name.replace(" leave", "\nleave"), *(f"{number:.3g}" for number in numbers)]


def _options() -> list[inspect.Parameter]:
    extra: dict[str, tuple[Any, Any]] = {
        "draws": (Annotated[int, typer.Option(min=2, help="gradients drawn of each kind")], 100),
        "run": (Annotated[Path | None, typer.Option(help="a trained run's directory")], None),
        "figure": (Annotated[Path, typer.Option(help="the PNG to write")], Path("gradient-variance.png")),
        "json": (Annotated[bool, typer.Option("--json", help="results as JSON on stdout")], False),
    }
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(n, kind, default=v, annotation=a) for n, (a, v) in extra.items()]
    return [*run_options(), *own]


set_options(gradient_variance_command, _options())
