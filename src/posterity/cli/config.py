"""`posterity config show`, `posterity config validate` and `posterity config diff`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from posterity.cli.options import JSON, run_command
from posterity.cli.output import note, print_json, print_table

config_app = typer.Typer(
    help="What a run is: show it, check it, compare it with another. Example: posterity config show --optimizer sgd",
    no_args_is_help=True,
)
HELP = "a TOML file, or a run's directory"
SOURCE = (Annotated[Path | None, typer.Argument(help=HELP, show_default=False)], None)


def show_command(given: dict[str, Any], *, source: Path | None, brief: bool, json: bool) -> None:
    """A run as TOML: from a file, a run's directory, flags, or flags on top of either; defaults stand in comments.

    What rules make of it (length, rates, temperature) is said beside it where the data are on this machine.

    Example: posterity config show --optimizer sgd --lr 0.05 > my.toml
    """
    from posterity.experiments.configuration import annotated, changed, configure, resolve

    run = configure(given, source)
    found = resolve(run)
    if json:
        different = {name: {"default": before, "value": value} for name, (before, value) in changed(run).items()}
        rules = None if found is None else asdict(found)
        print_json({"key": run.key, "run": run.as_dict(), "changed": different, "by_rule": rules})
        return
    print(annotated(run, whole=not brief), end="")
    note(f"key: {run.key}")
    note(f"by rule: {found or f'unknown without the data: posterity data fetch {run.dataset}'}")


def validate_command(given: dict[str, Any], *, source: Path | None, json: bool) -> None:
    """Check a run as `posterity train` would: names, types, bounds, and what does not go together.

    Example: posterity config validate run.toml
    """
    from posterity.experiments.configuration import configure, resolve

    run = configure(given, source)
    found = resolve(run)
    if json:
        print_json({"key": run.key, "planned": found is not None})
        return
    print(f"valid: {source or 'these flags'}, key {run.key}")
    unknown = f"checked without the data, which decide the rest: posterity data fetch {run.dataset}"
    note(str(found or unknown))


@config_app.command("diff")
def diff_command(
    first: Annotated[Path, typer.Argument(help=HELP)],
    second: Annotated[Path | None, typer.Argument(help="another one; the defaults without it")] = None,
    json: Annotated[bool, typer.Option("--json", help="the differences as JSON on stdout")] = False,
) -> None:
    """What differs between two runs, or between a run and the defaults.

    Example: posterity config diff runs/first runs/second
    """
    from posterity.experiments import Run
    from posterity.experiments.configuration import read_source, shown

    one = read_source(first)
    other = Run() if second is None else read_source(second)
    found = other.changed_from(one)
    names = (str(first), "default" if second is None else str(second))
    if json:
        print_json({name: dict(zip(names, values, strict=True)) for name, values in found.items()})
    elif not found:
        print(f"no difference: both have the key {one.key}")
    else:
        rows = [[name, *map(shown, values)] for name, values in found.items()]
        print_table("What differs", ["", *names], rows)


config_app.command("show")(
    run_command(
        show_command,
        {
            "source": SOURCE,
            "brief": (Annotated[bool, typer.Option("--brief", help="only what differs from the defaults")], False),
            **JSON,
        },
    )
)
config_app.command("validate")(run_command(validate_command, {"source": SOURCE, **JSON}))
