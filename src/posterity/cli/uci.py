"""`posterity uci`."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from posterity.cli.flags import UCI
from posterity.cli.options import JSON, run_command
from posterity.cli.output import note, print_json, print_table


def uci_command(given: dict[str, Any], *, name: str, splits: int | None, out: Path, json: bool) -> None:
    """A UCI regression set over its standard splits, beside the published results of Monte-Carlo dropout.

    Each split is a run in --out, with no options but those that are given here; what is there already is not run again.

    Example: posterity uci concrete --splits 20
    """
    from posterity.experiments.uci_study import PUBLISHED, SHOWN, UciResult, split_runs, study_splits

    runs = split_runs(name, splits, given)
    short, began = runs[0].dataset.removeprefix("uci-"), time.monotonic()
    found = []
    for record in study_splits(runs, out / short):
        found.append(record)
        left = (time.monotonic() - began) / len(found) * (len(runs) - len(found))
        test = record.test
        scores = f"rmse {test['rmse']:.3f}, log-likelihood {test['log_likelihood']:.3f}"
        note(f"split {record.run.split + 1}/{len(runs)}: {scores}; {left:.0f} s left")
    result = UciResult(short, found)
    if json:
        print_json({"dataset": short, "splits": len(found), "scores": result.scores(), "published": PUBLISHED[short]})
        return
    ours = [f"{mean:.3f} ± {error:.3f}" for mean, error in result.summary().values()]
    theirs = [f"{value:.2f}" for value in PUBLISHED[short]]
    rows = [["posterity", *ours], ["Monte-Carlo dropout, published", *theirs, "", ""]]
    print_table(f"{short}, {len(found)} standard splits: mean ± standard error", ["", *SHOWN], rows)
    note(f"runs in {out / short}")


COMMAND = run_command(
    uci_command,
    {
        "name": (Annotated[str, typer.Argument(help=f"the set: {', '.join(UCI)}")], inspect.Parameter.empty),
        "splits": (Annotated[int | None, typer.Option(min=1, help="the first so many splits; all by default")], None),
        "out": (Annotated[Path, typer.Option(help="the folder of the runs")], Path("runs/uci")),
        **JSON,
    },
)
