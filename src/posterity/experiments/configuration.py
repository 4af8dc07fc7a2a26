"""A run's configuration for people: where it is read from, how it is written, what rules make of it.

A source is a TOML file or a run's folder. What is written is TOML that is read again, with the default in a comment
behind each value that differs from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from posterity import data
from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import Run
from posterity.storage import RunDirectory
from posterity.training import plan

UNSET = "not set"  # None in a comment or a table


def configure(given: dict[str, Any], source: Path | None = None) -> Run:
    """The run that values and a source (a TOML file, or a run's folder) describe together."""
    return Run.of(**{**({} if source is None else read_source(source).model_dump()), **given})


def read_source(source: Path) -> Run:
    """The run in a TOML file or in a run's folder."""
    if source.is_dir():
        return Run.read(RunDirectory(source).config)
    if not source.exists():
        raise UsageError(f"there is no file {source}, nor a run's folder of that name")
    try:
        return Run.read(source)
    except CorruptFileError as error:  # written by hand: a mistake rather than damage
        raise UsageError(str(error)) from error


def changed(run: Run) -> dict[str, tuple[Any, Any]]:
    """By field, the default and the run's value, where they differ."""
    return run.changed_from(Run())


def annotated(run: Run, *, whole: bool = True) -> str:
    """The run as TOML, or what differs from the defaults alone, with the defaults in comments."""
    before = {name: shown(default) for name, (default, _) in changed(run).items()}
    values = {name: value for name, value in run.as_file().items() if whole or name in (*before, "schema")}
    lines = tomli_w.dumps(values).splitlines()
    inside = False  # a table of options, whose keys are not fields
    for number, line in enumerate(lines):
        found = re.match(r"\[?(\w+)\b", line)
        if found and found[1] in before and (line.startswith("[") or not inside):
            lines[number] += f"  # default: {before[found[1]]}"
        inside = inside or line.startswith("[")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A value in one line, as in a TOML file."""
    if value is None or value in ({}, ()):
        return UNSET
    if isinstance(value, dict):
        return ", ".join(f"{key}={shown(part)}" for key, part in value.items())
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()


@dataclass(frozen=True)
class Resolved:
    """What data, network and rules make of a run."""

    train_rows: int
    val_rows: int
    num_weights: int
    epochs: int
    steps: int
    rates: dict[str, float]  # by group of weights, before the schedule
    temperature: str  # at the end of a warm-up, if there is one

    def __str__(self) -> str:
        held_out = f" and {self.val_rows:,} held out" if self.val_rows else ""
        rates = ", ".join(f"{rate:g} ({name})" for name, rate in self.rates.items())
        return (
            f"{self.train_rows:,} data{held_out}, {self.num_weights:,} weights, {self.epochs} epochs of "
            f"{self.steps // self.epochs} steps, rates {rates}, temperature {self.temperature}"
        )


def resolve(run: Run) -> Resolved | None:
    """The run planned as `execute` would, which refuses what does not go together; None without its data here."""
    if not _is_here(run.dataset):
        return None
    parts = build_data(run)
    net = build_network(run, parts.train)
    planned = plan(net, parts.train, parts.val, run)
    epochs, batch_size = planned.settings.length, planned.subject.batch_size
    return Resolved(
        train_rows=len(parts.train),
        val_rows=0 if parts.val is None else len(parts.val),
        num_weights=net.num_weights,
        epochs=epochs,
        steps=epochs * -(-len(parts.train) // batch_size),
        rates={group.name: group.base_lr for group in planned.groups},
        temperature=planned.course().words(epochs),
    )


def _is_here(dataset: str) -> bool:
    """Whether the data are on this machine: nothing is fetched only to show a configuration."""
    return data.is_here(dataset)
