"""Evidence: all that a claim's table, figure and verdict are made of, as one small file of JSON.

It holds a row an item of the claim's studies (what it was, its numbers, the curves that the claim keeps, how long it
took), what was measured on the trained networks, and with which versions. So a page can be made again, and a single run
repeated, where the runs themselves are gone.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from posterity import __version__
from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments.results import Results
from posterity.experiments.row import Row
from posterity.experiments.run import SCHEMA
from posterity.storage import read_json, write_text

CURVE_DIGITS = 6


@dataclass(frozen=True)
class Evidence:
    """What was found for a claim at a scale: results by study, and what was measured beside them."""

    claim: str
    scale: str
    studies: Mapping[str, Results]
    measured: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, study: str) -> Results:
        """The results of a study."""
        return self.studies[study]

    @property
    def results(self) -> Results:
        """Those of a claim with a single study."""
        if len(self.studies) != 1:
            raise UsageError(f"{self.claim} has several studies: {', '.join(self.studies)}")
        return next(iter(self.studies.values()))

    @property
    def seeds(self) -> list[int]:
        """The seeds of all items."""
        return sorted({row.seed for results in self.studies.values() for row in results})

    def write(self, path: Path, curves: Mapping[str, tuple[str, ...]]) -> None:
        """As JSON, with these numbers of each epoch by study."""
        studies = {name: _as_json(results, curves.get(name, ())) for name, results in self.studies.items()}
        whole = {"claim": self.claim, "scale": self.scale, "about": self.about, "measured": self.measured}
        write_text(path, json.dumps({**whole, "studies": studies}, allow_nan=False, separators=(",", ":")) + "\n")

    @classmethod
    def read(cls, path: Path) -> Evidence:
        """The inverse of `write`."""
        if not path.exists():
            raise UsageError(f"there are no results in {path}")
        found = read_json(path)
        try:
            studies = {name: _from_json(each) for name, each in found["studies"].items()}
            return cls(found["claim"], found["scale"], studies, found["measured"], found["about"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{path} holds no evidence of a claim: {error!r}") from error


def about(seconds: float, settings: Mapping[str, str]) -> dict[str, Any]:
    """Under which conditions evidence came about: digests of the studies, versions, and the seconds of all items."""
    versions = {"posterity": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"seconds": round(seconds, 1), "studies": dict(settings), "schema": SCHEMA, "versions": versions}


def _as_json(results: Results, curves: tuple[str, ...]) -> dict[str, Any]:
    """Settings that all rows share stand once."""
    shared = {name for name in results.columns["config"] if name not in results.varying()}
    first = results[0].config if len(results) else {}
    rows = []
    for row in results:
        own = {name: value for name, value in row.config.items() if name not in shared}
        numbers = {name: value for name, value in row.metrics.items() if math.isfinite(value)}
        rows.append({"key": row.key, "state": row.state, "error": row.error, "config": own, "metrics": numbers})
        if curves:
            rows[-1]["curves"] = {name: _curve(row, name) for name in ("epoch", *curves)}
    return {"shared": {name: first[name] for name in sorted(shared) if name in first}, "rows": rows}


def _curve(row: Row, name: str) -> list[float | None]:
    values = [record.get(name) for record in row.history]
    return [None if v is None or not math.isfinite(v) else float(f"{v:.{CURVE_DIGITS}g}") for v in values]


def _from_json(found: Mapping[str, Any]) -> Results:
    rows = []
    for each in found["rows"]:
        config = {**_plain(found["shared"]), **_plain(each["config"])}
        curves = each.get("curves", {})
        records = [
            {name: values[i] for name, values in curves.items() if values[i] is not None}
            for i in range(len(curves.get("epoch", ())))
        ]
        rows.append(Row(each["key"], config, each["metrics"], each["state"], each["error"], records=records))
    return Results(rows)


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
