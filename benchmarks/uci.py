"""The UCI sets over their standard splits, with no options, beside the published results of Monte-Carlo dropout.

    python benchmarks/uci.py run
    python benchmarks/uci.py table

`run` does what `posterity uci NAME` does, for each set. Splits that are there, or in uci.json with the present key and
rules, are not run again (half an hour on a core) unless --anew forgets them, for code that has changed where no
constant has. `table` judges what there is: it writes uci.json, with every split, and uci.md, which is made of it alone.
Our defaults are above the published log-likelihood where the mean over the splits is, and near its RMSE where theirs is
not exceeded by more than NEAR of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from defaults_report import forget
from defaults_rules import effective, present_defaults, rules
from posterity.data.uci import SETS
from posterity.experiments import Record, Run
from posterity.experiments.uci_study import PUBLISHED, SHOWN, split_runs, standard_error, study_splits
from posterity.storage import write_text
from posterity.storage.atomic import read_json

NAME = "uci"
COMMANDS = ("python benchmarks/uci.py run", "python benchmarks/uci.py table")
DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
NEAR = 0.05
WANTED = 5  # of the six sets


def runs_of(name: str) -> list[Run]:
    """Of all splits."""
    return split_runs(name, None, {})


def rows_of(name: str, folder: Path) -> list[dict[str, Any]]:
    """The splits that were run to their end with the present defaults."""
    found = []
    for run in runs_of(name):
        place = folder / f"split-{run.split}"
        if not place.exists():
            continue
        record = Record.read(place)
        if record.finished and record.run.key == run.key:
            scores = {metric: float(f"{record.test[metric]:.6g}") for metric in SHOWN}
            found.append({"set": name, "split": run.split, "key": run.key, **scores})
    return found


def folder_of(name: str, args: argparse.Namespace) -> Path:
    """Of the runs of a set with the present rules: what others have made is not gone on with."""
    folder: Path = args.out / rules() / name
    return folder


def stored_rows(name: str, folder: Path) -> list[dict[str, Any]]:
    """The splits that uci.json has of the present defaults."""
    keys = {run.split: run.key for run in runs_of(name)}
    stored = read_json(folder / f"{NAME}.json")
    rows = stored["rows"] if stored.get("effective") == effective() else []
    return [row for row in rows if row["set"] == name and row["key"] == keys.get(row["split"])]


def run(args: argparse.Namespace) -> None:
    """One split after the other."""
    torch.set_num_threads(1)
    for name in args.sets:
        if args.anew:
            shutil.rmtree(folder_of(name, args), ignore_errors=True)
            forget(args.to / f"{NAME}.json", ["set"], {(name,)})
        known = {row["split"] for row in stored_rows(name, args.to)}
        missing = [each for each in runs_of(name)[: args.splits] if each.split not in known]
        for record in study_splits(missing, folder_of(name, args)) if missing else ():
            print(f"{name} {record.run.split}: " + ", ".join(f"{m} {record.test[m]:.4g}" for m in SHOWN), flush=True)


def table(args: argparse.Namespace) -> None:
    """Write the files."""
    splits = {name: SETS[f"uci-{name}"].num_splits for name in PUBLISHED}
    rows = []
    for name in PUBLISHED:
        by_split = {row["split"]: row for row in (*stored_rows(name, args.to), *rows_of(name, folder_of(name, args)))}
        rows += [by_split[split] for split in sorted(by_split)]
    stored = {**present_defaults(), "splits": splits, "published": PUBLISHED, "rows": rows}
    write_text(args.to / f"{NAME}.json", json.dumps(stored, indent=1) + "\n")
    write_text(args.to / f"{NAME}.md", page(json.loads(json.dumps(stored))))
    print(page(stored))


def page(stored: Mapping[str, Any]) -> str:
    """uci.md."""
    lines, above, near, missing = [], [], [], []
    for name, (rmse, log_likelihood) in stored["published"].items():
        rows = [row for row in stored["rows"] if row["set"] == name]
        counted = f"{len(rows)} of {stored['splits'][name]}"
        if not rows:
            missing.append(name)
            lines.append(f"| {name} | {counted} | | {rmse:.2f} | | {log_likelihood:.2f} | | |")
            continue
        values = {metric: [row[metric] for row in rows] for metric in SHOWN}
        means = {metric: fmean(each) for metric, each in values.items()}
        above += [name] * (means["log_likelihood"] > log_likelihood)
        near += [name] * (means["rmse"] <= (1 + NEAR) * rmse)
        shown = {metric: f"{fmean(each):.3f} ± {standard_error(each):.3f}" for metric, each in values.items()}
        coverage = f"{100 * means['coverage_90']:.1f} %"
        lines.append(
            f"| {name} | {counted} | {shown['rmse']} | {rmse:.2f} | {shown['log_likelihood']} | {log_likelihood:.2f} | "
            f"{coverage} | {shown['crps']} |"
        )
    count = len(stored["published"])
    return "\n".join(
        [
            "# UCI sets over their standard splits",
            "",
            *(f"    {command}" for command in COMMANDS),
            "",
            "One hidden layer of 50 units, no options: what `posterity uci NAME` does. Mean ± standard error over the "
            "standard splits, beside what the authors of Monte-Carlo dropout published, over all splits. Coverage is "
            "that of central 90 % intervals.",
            "",
            "| set | splits | RMSE | dropout's | log-likelihood | dropout's | coverage | CRPS |",
            "|---|---|---|---|---|---|---|---|",
            *lines,
            "",
            f"- log-likelihood above the published one: {len(above)} of {count} ({WANTED} wanted): "
            f"{', '.join(above) or 'none'}",
            f"- RMSE within {NEAR:.0%} of the published one or better: {len(near)} of {count}: "
            f"{', '.join(near) or 'none'}",
            *([f"- not run: {', '.join(missing)}"] if missing else []),
            "",
            f"Schema {stored['schema']} of `Run`.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--sets", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--splits", type=int, help="the first so many; all by default")
    parser.add_argument("--anew", action="store_true", help="first forget the splits that are there")
    parser.add_argument("--out", type=Path, default=Path("runs/uci"), help="folder of the runs")
    parser.add_argument("--to", type=Path, default=DOCS, help="folder of the table's files")
    args = parser.parse_args()
    {"run": run, "table": table}[args.command](args)


if __name__ == "__main__":
    main()
