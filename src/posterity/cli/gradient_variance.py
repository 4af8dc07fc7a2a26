"""`posterity gradient-variance`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posterity.cli.flags import DRAWS
from posterity.cli.options import JSON, run_command
from posterity.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from posterity.objectives import GradientVariance


def gradient_variance_command(given: dict[str, Any], *, draws: int, run: Path | None, figure: Path, json: bool) -> None:
    """How noisy the gradient is by --estimator and --gradient (all of them by default), and what a draw costs.

    On one batch, with the weights a training would start from, or with those of a trained run (--run). Kinds that the
    network does not have are left out.

    Example: posterity gradient-variance --dataset digits --model lenet5 --draws 50 --figure variance.png
    """
    from posterity.experiments.variance_study import study_variance
    from posterity.report import save, variance_bars

    study = study_variance(given, draws=draws, trained=run)
    results = study.results
    save(variance_bars({r.name: r.variance for r in results}, study.title), figure)
    if json:
        print_json([r.as_dict() for r in results])
        return
    print_table(study.title, _columns(results), [_row(r) for r in results])
    note("variance: summed over the gradient's components")
    note("norm: of the expected gradient; beside a large variance it is noise, or 0")
    note(f"figure: {figure}")


def _columns(results: list[GradientVariance]) -> list[str]:
    groups = [f"{name}\n{kind}" for name in results[0].variance for kind in ("variance", "norm")]
    return ["", *groups, "ms a\ndraw", "rel.\ntime"]


def _row(result: GradientVariance) -> list[str]:
    groups = [part[name] for name in result.variance for part in (result.variance, result.norm)]
    numbers = [*groups, 1e3 * result.seconds, result.relative_time]
    return [result.name.replace(" leave", "\nleave"), *(f"{number:.3g}" for number in numbers)]


COMMAND = run_command(
    gradient_variance_command,
    {
        "draws": (Annotated[int, typer.Option(min=2, help="gradients drawn of each kind")], DRAWS),
        "run": (Annotated[Path | None, typer.Option(help="a trained run's directory")], None),
        "figure": (Annotated[Path, typer.Option(help="the PNG to write")], Path("gradient-variance.png")),
        **JSON,
    },
)
