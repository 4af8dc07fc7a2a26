"""`posterity data list` and `posterity data fetch`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from posterity.cli.output import note, print_json, print_table

data_app = typer.Typer(
    help="Data sets: what there is, and getting it onto this machine. Example: posterity data fetch mnist",
    no_args_is_help=True,
)


@data_app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="as JSON on stdout")] = False,
) -> None:
    """List the data sets.

    Example: posterity data list
    """
    from posterity import data

    found = data.describe()
    if json:
        print_json([asdict(info) for info in found])
        return
    rows = [
        [
            info.name,
            info.task or "",
            " x ".join(map(str, info.shape)),
            str(info.num_train or ""),
            str(info.num_test or ""),
            str(info.num_classes or ""),
            info.origin,
            "yes" if info.available else "no",
        ]
        for info in found
    ]
    print_table("Data sets", ["name", "task", "input", "train", "test", "classes", "origin", "here"], rows)


@data_app.command("fetch")
def fetch_command(
    names: Annotated[list[str], typer.Argument(help="names of data sets")],
    json: Annotated[bool, typer.Option("--json", help="the files' paths as JSON on stdout")] = False,
) -> None:
    """Get data sets onto this machine, whole and verified.

    Example: posterity data fetch mnist
    """
    from posterity import data

    places = {name: str(data.fetch(name)) for name in names}
    if json:
        print_json(places)
        return
    for name, place in places.items():
        note(f"{name}: {place}")
