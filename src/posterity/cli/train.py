"""`posterity train`: its options are the fields of Run, so that flags, config file and Python agree."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional, get_args

import typer

from posterity.cli.output import note, print_json, print_metrics
from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Run, load_run, train_run, write_summary
from posterity.experiments import evaluate as evaluate_run
from posterity.report import write_evaluation_figures, write_training_figure
from posterity.training.fit import CHECKPOINT_SECONDS

LISTS = ("hidden", "deterministic")
NUMBER_OR_NAME = ("prior_scale", "noise", "temperature")
PANELS = {  # of the help: each begins with this field of Run
    "dataset": "Data",
    "model": "Network",
    "prior": "Prior",
    "rho": "Posterior's start, deterministic weights and noise",
    "epochs": "Optimiser",
    "optimizer_sd": "Optimiser of the standard deviations",
    "average": "Averaging",
    "optimizer_options": "Options of optimisers and schedules",
    "temperature": "Temperature",
    "samples": "Gradient",
    "clip": "Stopping, validation and seed",
}
OPTIONS = ("optimizer_options", "optimizer_sd_options", "schedule_options", "schedule_sd_options")


def train_command(**options: Any) -> None:
    """Train a network; history, checkpoints, summary and figures go to --out.

    Example: posterity train --dataset digits --model lenet5 --temperature 0.1 --out runs/first
    """
    out: Path = options.pop("out")
    config: Path | None = options.pop("config")
    resume, overwrite = options.pop("resume"), options.pop("overwrite")
    as_json, quiet = options.pop("json"), options.pop("quiet")
    seconds: float = options.pop("checkpoint_seconds")
    given = {name: parse(name, value) for name, value in options.items() if value is not None}
    run = configure(given, config=config, resume_from=out if resume else None)
    result = train_run(run, out, resume=resume, overwrite=overwrite, progress=not quiet, checkpoint_seconds=seconds)
    write_training_figure(out)
    trained = load_run(out)
    evaluation = evaluate_run(trained, seed=run.seed)
    drawn = {"samples": evaluation.prediction.num_samples, "seed": run.seed}
    write_summary(out / "summary.json", {"evaluation": {**evaluation.as_dict(), **drawn}})
    write_evaluation_figures(out / "figures", evaluation.networks(run.model))
    if as_json:
        print_json({"run": str(out), "key": run.key, "stopped": result.stopped, **evaluation.as_dict()})
    else:
        note(f"finished: {result.stopped}; results in {out}")
        print_metrics(f"{run.model} on {run.dataset}, test data", evaluation.columns())
    for warning in result.history[-1]["warnings"]:
        note(f"warning: {warning}")


def configure(given: dict[str, Any], *, config: Path | None, resume_from: Path | None) -> Run:
    """The run that flags, a config file or a directory to resume describe together."""
    if resume_from is not None:
        run = Run.read(resume_from / "config.toml")
        changed = [f"--{k.replace('_', '-')}" for k, v in given.items() if getattr(run, k) != v]
        if changed or config:
            names = ", ".join(changed) or "--config"
            raise UsageError(f"--resume continues the run as it was begun; leave out {names}")
        return run
    try:
        base = Run.read(config).model_dump() if config else {}
    except CorruptFileError as error:  # written by hand: a mistake rather than damage
        raise UsageError(str(error)) from error
    return Run.of(**{**base, **given})


def parse(name: str, value: Any) -> Any:
    """A flag's text in the field's type."""
    if name in LISTS:
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if name == "deterministic":
            return tuple(parts)
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"--hidden takes widths such as 400,400, not '{value}'")
        return tuple(int(part) for part in parts)
    if name == "dataset" and Path(value).suffix in (".npz", ".csv"):
        return str(Path(value).resolve())  # the run is resumed and evaluated from other folders, too
    if name in OPTIONS:
        return dict(_option(name, part) for part in value.split(",") if part.strip())
    if name in NUMBER_OR_NAME:
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _option(flag: str, text: str) -> tuple[str, Any]:
    """key=value, where the value is a number, true, false, numbers with colons between them, or a word."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise UsageError(f"--{flag.replace('_', '-')} takes options such as key=value,key=value, not '{text}'")
    if value in ("true", "false"):
        return key, value == "true"
    for read in (int, float, lambda parts: tuple(float(part) for part in parts.split(":"))):
        with contextlib.suppress(ValueError):
            return key, read(value)
    return key, value


def run_options() -> list[inspect.Parameter]:
    """A flag for each field of Run."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters, panel = [], ""
    for name, field in Run.model_fields.items():
        types = [t for t in (field.annotation, *get_args(field.annotation)) if t in (bool, int, float, str)]
        plain = str if name in (*LISTS, *NUMBER_OR_NAME) or not types else types[0]
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        shown = "" if default in (None, "", {}) else f"; default {default}"
        panel = PANELS.get(name, panel)
        text = f"{field.description}{shown}"
        option = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False, rich_help_panel=panel)
        annotation = Annotated[Optional[plain], option]  # type: ignore[valid-type]  # noqa: UP045
        parameters.append(inspect.Parameter(name, kind, default=None, annotation=annotation))
    return parameters


def _options() -> list[inspect.Parameter]:
    parameters, kind = run_options(), inspect.Parameter.KEYWORD_ONLY
    extra: dict[str, tuple[Any, Any]] = {
        "out": (Annotated[Path, typer.Option(help="the run's directory")], inspect.Parameter.empty),
        "config": (Annotated[Path | None, typer.Option(help="a config.toml to start from")], None),
        "resume": (Annotated[bool, typer.Option("--resume", help="continue the run in --out")], False),
        "overwrite": (Annotated[bool, typer.Option("--overwrite", help="start anew in --out")], False),
        "checkpoint_seconds": (
            Annotated[float, typer.Option(min=0, help="longest time between checkpoints")],
            CHECKPOINT_SECONDS,
        ),
        "json": (Annotated[bool, typer.Option("--json", help="results as JSON on stdout")], False),
        "quiet": (Annotated[bool, typer.Option("--quiet", help="no progress display")], False),
    }
    for name, (annotation, value) in extra.items():
        parameters.append(inspect.Parameter(name, kind, default=value, annotation=annotation))
    return parameters


def set_options(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Tell typer which options `command` takes."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}


set_options(train_command, _options())
