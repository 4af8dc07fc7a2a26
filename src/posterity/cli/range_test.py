"""`posterity range-test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from posterity.cli.flags import RANGE_TEST
from posterity.cli.options import JSON, run_command
from posterity.cli.output import note, print_json


def range_test_command(
    given: dict[str, Any], *, group: str, low: float, high: float, steps: int, figure: Path, json: bool
) -> None:
    """Find a learning rate: raise it exponentially from --low to --high and see where the loss falls and breaks.

    Example: posterity range-test --dataset digits --model lenet5 --figure range.png
    """
    from posterity.experiments.configuration import configure
    from posterity.experiments.range_study import range_verdict, study_range
    from posterity.report import range_figure, save

    run = configure(given)
    result = study_range(run, group=group, low=low, high=high, steps=steps)
    save(
        range_figure(
            result, f"{run.network_name} on {run.dataset}, {run.optimizer or 'default optimiser'}, group: {group}"
        ),
        figure,
    )
    if json:
        print_json(vars(result))
        return
    print(range_verdict(result, low=low, high=high))
    note(f"figure: {figure}")


COMMAND = run_command(
    range_test_command,
    {
        "group": (Annotated[str, typer.Option(help="all, mean, sd or deterministic")], RANGE_TEST["group"]),
        "low": (Annotated[float, typer.Option(help="first rate")], RANGE_TEST["low"]),
        "high": (Annotated[float, typer.Option(help="last rate")], RANGE_TEST["high"]),
        "steps": (Annotated[int, typer.Option(help="number of steps")], RANGE_TEST["steps"]),
        "figure": (Annotated[Path, typer.Option(help="the PNG to write")], Path("range-test.png")),
        **JSON,
    },
)
