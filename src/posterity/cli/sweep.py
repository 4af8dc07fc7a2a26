"""`posterity sweep`: a study over many runs, by any number of workers; status, best and export beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from posterity.cli.output import note, print_json, print_table, show

if TYPE_CHECKING:
    from posterity.experiments import Results
    from posterity.experiments.study import Study

MOST_LINES = 40  # of a summary
SHOWN = ("accuracy", "nll", "rmse", "log_likelihood", "error", "gap", "factor")


class _FileOrCommand(TyperGroup):
    """`sweep study.toml` is `sweep run study.toml`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What is no command's name is a study."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


sweep_app = typer.Typer(
    cls=_FileOrCommand,
    no_args_is_help=True,
    help="A study over many runs: posterity sweep study.toml --workers 2, then sweep status, best or export.",
)

StudyFile = Annotated[Path, typer.Argument(help="the study.toml, or a folder that holds one")]
Folder = Annotated[Path, typer.Argument(help="the study's folder")]
Out = Annotated[Path | None, typer.Option(help="the study's folder; runs/NAME by default")]
Scale = Annotated[str | None, typer.Option(help="one of the study's scales, such as smoke")]
Storage = Annotated[
    str | None,
    typer.Option(
        envvar="POSTERITY_STORAGE",
        help="where the study is stored, such as postgresql://user@host/database; SQLite in its folder by default",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="results as JSON on stdout")]


@sweep_app.command("run")
def run_command(
    study: StudyFile,
    out: Out = None,
    workers: Annotated[int, typer.Option(min=1, help="processes, which share the threads")] = 1,
    scale: Scale = None,
    storage: Storage = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress display")] = False,
    json: Json = False,
) -> None:
    """Do a study's runs, or go on with them; what is finished is not done again. `run` may be left out.

    Example: posterity sweep study.toml --workers 2 --scale smoke
    """
    from posterity.experiments.sweep import prepare, sweep, sweep_with_pool
    from posterity.experiments.tables import plain

    chosen, place, url = prepare(study, out=out, scale=scale, storage=storage)
    if workers == 1:
        results = sweep(chosen, out=place, storage=storage, progress=not quiet)
    else:
        results = sweep_with_pool(chosen, place, url, workers, progress=not quiet)
    if json:
        print_json({"study": str(place), "states": _states(results), "rows": [plain(row) for row in results.table()]})
    else:
        _print_summary(chosen, results)
        note(f"results in {place}; posterity sweep export {place} --out table.csv")
    _leave(results)


@sweep_app.command("worker")
def worker_command(
    study: StudyFile,
    out: Out = None,
    scale: Scale = None,
    storage: Storage = None,
) -> None:
    """One more worker for a study, on this or on any other machine; it ends when nothing is left to do.

    Example: posterity sweep worker study.toml --storage postgresql://me@host/studies --out runs/study
    """
    from posterity.experiments.lease import Leases
    from posterity.experiments.sweep import prepare
    from posterity.experiments.worker import work

    chosen, place, url = prepare(study, out=out, scale=scale, storage=storage)
    leases = Leases(chosen, url)
    try:
        work(chosen, place, leases)
    finally:
        leases.close()


@sweep_app.command("status")
def status_command(folder: Folder, storage: Storage = None, json: Json = False) -> None:
    """How far a study is, and what went wrong in it.

    Example: posterity sweep status runs/study
    """
    from posterity.experiments import Results
    from posterity.experiments.row import BAD

    results = Results.read(folder, storage=storage)
    bad = results.filter(lambda row: row.state in BAD)
    if json:
        errors = {row.key: row.error for row in bad}
        print_json({"study": str(folder), "items": len(results), "states": _states(results), "errors": errors})
        return
    print(", ".join(f"{count} {state}" for state, count in _states(results).items()) + f" of {len(results)}")
    for row in bad:
        print(f"{row.state}  {row.folder or row.key}: {row.error}")


@sweep_app.command("best")
def best_command(
    folder: Folder,
    metric: Annotated[str | None, typer.Option(help="the metric; the study's own by default")] = None,
    lowest: Annotated[bool | None, typer.Option("--lowest/--highest", help="which is best")] = None,
    count: Annotated[int, typer.Option(min=1, help="how many")] = 5,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """The best runs of a study.

    Example: posterity sweep best runs/study --metric accuracy
    """
    from posterity.experiments.results import Results, is_lower_better
    from posterity.experiments.study import Study
    from posterity.experiments.tables import plain

    results, study = Results.read(folder, storage=storage), Study.read(folder)
    name = metric or study.metric or _main_metric(results)
    down = (study.lowest if name == study.metric else is_lower_better(name)) if lowest is None else lowest
    found = results.ranked(name, lowest=down)[:count]
    table = found.table()
    if json:
        print_json({"metric": name, "lowest": down, "rows": [plain(line) for line in table]})
        return
    columns = [name, *(n for n in results.varying())]
    rows = [[row.key, *(_cell(n, results, row) for n in columns)] for row in found]
    print_table(f"{study.name}: best {name}", ["", *columns], rows)


@sweep_app.command("export")
def export_command(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="the file: .csv, .json or .parquet")],
    every: Annotated[bool, typer.Option("--every", help="all settings, not only those that vary")] = False,
    storage: Storage = None,
    json: Json = False,
) -> None:
    """A study's table as a file.

    Example: posterity sweep export runs/study --out table.csv
    """
    from posterity.experiments import Results

    results = Results.read(folder, storage=storage)
    results.write(out, every=every)
    if json:
        print_json({"file": str(out), "rows": len(results)})
    else:
        note(f"{len(results)} rows in {out}")


def _states(results: Results) -> dict[str, int]:
    return dict(Counter(row.state for row in results))


def _main_metric(results: Results) -> str:
    return next((name for name in SHOWN if name in results.columns["metrics"]), results.columns["metrics"][0])


def _cell(name: str, results: Results, row: Any) -> str:
    part, key = results.place(name)
    value = row.part(part).get(key)
    return show(key, value) if part == "metrics" else f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_summary(study: Study, results: Results) -> None:
    """A line a group of the settings that are not drawn from a range, for people; a long one is for `export`."""
    metrics = [metric for metric in SHOWN if metric in results.columns["metrics"]]
    by = [name for name in results.varying() if name != "seed" and name not in study.ranges]
    lines = results.summary([f"config.{name}" for name in by], [f"metrics.{metric}" for metric in metrics])
    rows = [
        [", ".join(str(line[f"config.{name}"]) for name in by) or "all", str(line["count"]), str(line["bad"])]
        + [_mean(metric, line) for metric in metrics]
        for line in lines[:MOST_LINES]
    ]
    left = f", {len(lines) - MOST_LINES} more lines by export" if len(lines) > MOST_LINES else ""
    heads = [", ".join(by), "runs", "bad", *metrics]
    print_table(f"{study.name}: mean ± standard error{left}", heads, rows)


def _mean(metric: str, line: Mapping[str, Any]) -> str:
    """Mean and standard error, which a single run has not."""
    mean, error = line[f"metrics.{metric}.mean"], line[f"metrics.{metric}.standard_error"]
    return show(metric, mean) + ("" if math.isnan(error) else f" ± {show(metric, error)}")


def _leave(results: Results) -> None:
    from posterity.experiments.row import BAD
    from posterity.experiments.sweep import SOME_FAILED

    bad = results.filter(lambda row: row.state in BAD)
    if len(bad):
        note(f"{len(bad)} of {len(results)} failed or diverged, such as {bad[0].key}: {bad[0].error}")
        raise typer.Exit(SOME_FAILED)
