"""`posterity train`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posterity.cli.flags import CHECKPOINT_SECONDS
from posterity.cli.options import JSON, run_command
from posterity.cli.output import note, print_json, print_metrics
from posterity.core.errors import NonFiniteError, UsageError

if TYPE_CHECKING:
    from posterity.experiments import Run


def train_command(
    given: dict[str, Any],
    *,
    out: Path,
    config: Path | None,
    resume: bool,
    overwrite: bool,
    checkpoint_seconds: float,
    tensorboard: bool,
    quiet: bool,
    json: bool,
) -> None:
    """Train a network; history, checkpoints, summary and figures go to --out.

    Example: posterity train --dataset digits --model lenet5 --out runs/first
    """
    from posterity.experiments import execute
    from posterity.experiments.configuration import configure
    from posterity.integrations import TensorBoard
    from posterity.report import write_figures
    from posterity.storage import RunDirectory
    from posterity.training import process_group

    with process_group() as ranks:
        if ranks is not None and not ranks.leads:
            _accompany()
            return
        run = _resumed(out, given, config) if resume else configure(given, config)
        again = ranks is not None and ranks.restarted
        record = execute(
            run,
            out,
            resume=resume or again,
            overwrite=overwrite and not again,
            progress=not quiet,
            checkpoint_seconds=checkpoint_seconds,
            callbacks=[TensorBoard(RunDirectory(out).tensorboard)] if tensorboard else [],
        )
    write_figures(record)
    if json:
        print_json({"run": str(out), "key": run.key, "stopped": record.summary["stopped"], **record.numbers()})
    else:
        note(f"finished: {record.summary['stopped']}; results in {out}")
        print_metrics(f"{run.network_name} on {run.dataset}, test data", record.columns())
        if record.by_class:
            print_metrics("by class", record.by_class)
    for warning in record.warnings:
        note(f"warning: {warning}")


def _accompany() -> None:
    from posterity.experiments import accompany
    from posterity.training import Interrupted

    try:
        accompany()
    except (Interrupted, NonFiniteError) as error:  # which all have, and the first reports
        raise typer.Exit(error.exit_code) from error


def _resumed(out: Path, given: dict[str, Any], config: Path | None) -> Run:
    """The run in `out`, perhaps with more epochs."""
    from posterity.experiments import Record, Run

    before = Record.read(out).run
    run = Run.of(**{**before.model_dump(), **given})
    changed = [f"--{name.replace('_', '-')}" for name in run.changed_from(before) if name != "epochs"]
    if changed or config:
        names = ", ".join(changed) or "--config"
        raise UsageError(f"--resume continues the run as it was begun; leave out {names}")
    return run


COMMAND = run_command(
    train_command,
    {
        "out": (Annotated[Path, typer.Option(help="the run's directory")], inspect.Parameter.empty),
        "config": (Annotated[Path | None, typer.Option(help="a TOML file, or a run's directory, to start from")], None),
        "resume": (
            Annotated[bool, typer.Option("--resume", help="continue the run in --out; with more --epochs, for longer")],
            False,
        ),
        "overwrite": (Annotated[bool, typer.Option("--overwrite", help="start anew in --out")], False),
        "checkpoint_seconds": (
            Annotated[float, typer.Option(min=0, help="longest time between checkpoints")],
            CHECKPOINT_SECONDS,
        ),
        "tensorboard": (
            Annotated[bool, typer.Option("--tensorboard", help="also write the history for TensorBoard, in --out")],
            False,
        ),
        "quiet": (Annotated[bool, typer.Option("--quiet", help="no progress display")], False),
        **JSON,
    },
)
