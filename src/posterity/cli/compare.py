"""`posterity compare`."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posterity.cli.output import note, print_json, print_table
from posterity.cli.sweep import Storage

if TYPE_CHECKING:
    from posterity.experiments.compare import Comparison, Difference, Line


def compare_command(
    runs: Annotated[list[Path], typer.Argument(help="runs, or folders of runs such as a study's")],
    by: Annotated[list[str] | None, typer.Option(help="setting that makes the groups; may be repeated")] = None,
    where: Annotated[list[str] | None, typer.Option(help="take runs with, say, dataset=mnist; may be repeated")] = None,
    z: Annotated[str | None, typer.Option(help="the metric; accuracy or rmse on test data by default")] = None,
    success: Annotated[float | None, typer.Option(help="threshold: a run that is better than it succeeded")] = None,
    against: Annotated[str | None, typer.Option(help="the group to compare with; the best by default")] = None,
    out: Annotated[Path, typer.Option(help="the PNG to write")] = Path("compare.png"),
    storage: Storage = None,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """Runs, or groups of runs, over each other: curves, a table, success rates, differences with 95 % intervals.

    Without --by, each folder is a group; of one folder, what varies in it. With --success, means, curves and
    differences are of the runs that succeeded, and the rate is of all.

    Example: posterity compare runs/search --by optimizer --z val_accuracy --success 0.15
    """
    from posterity.experiments.compare import gather
    from posterity.experiments.tables import plain
    from posterity.report import compare_figure, save

    comparison = gather(runs, by=by or [], where=where or [], metric=z, success=success, storage=storage)
    lines, differences = comparison.table(), comparison.differences(against)
    save(compare_figure(comparison), out)
    if json:
        groups, found = [plain(asdict(line)) for line in lines], [plain(asdict(each)) for each in differences]
        print_json({"metric": comparison.metric, "groups": groups, "differences": found})
        return
    _print_groups(comparison, lines)
    if differences:
        _print_differences(comparison, differences)
    note(f"figure: {out}")


def _print_groups(comparison: Comparison, lines: list[Line]) -> None:
    columns = ["", "mean ± standard error", "sd", "best", "runs", "failed"]
    rows = [
        [v.group, f"{v.mean:.4g} ± {v.standard_error:.2g}", f"{v.sd:.3g}", f"{v.best:.4g}", str(v.count), str(v.bad)]
        for v in lines
    ]
    if comparison.success is not None:
        columns.append("success")
        for row, line in zip(rows, lines, strict=True):
            row.append("" if line.success_rate is None else f"{line.success_rate:.0%} of {line.tried}")
    print_table(comparison.metric, columns, [[cell.replace("nan", "-") for cell in row] for row in rows])


def _print_differences(comparison: Comparison, differences: list[Difference]) -> None:
    rows = []
    for found in differences:
        interval = "-" if math.isnan(found.low) else f"{found.low:+.4g} to {found.high:+.4g}"
        rows.append([found.group, f"{found.mean:+.4g}", interval, str(found.pairs) if found.pairs else "unpaired"])
    title = f"{comparison.metric}, difference to {differences[0].reference}"
    print_table(title, ["", "mean", "95 % interval", "pairs"], rows)
