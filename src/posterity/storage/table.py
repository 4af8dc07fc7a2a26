"""A history as a table: a row an epoch, what is nested in a record under names with dots.

{"nll": 0.3, "groups": {"mean": {"lr": 0.01}}, "snr": [0.1, 2.0]}  ->  nll, groups.mean.lr, snr.0, snr.1
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posterity.storage.atomic import replace_file


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and words by name; several words (warnings) are one, with semicolons between them."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            found[name] = "; ".join(value)
        elif isinstance(value, (list, Mapping)):
            parts = dict(enumerate(value)) if isinstance(value, list) else value
            found |= {f"{name}.{key}": part for key, part in flat({str(k): v for k, v in parts.items()}).items()}
        else:
            found[name] = value
    return found


def write_table(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """As CSV, whole or not at all; a column that a record lacks is empty there."""
    rows = [flat(record) for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))

    def write(partial: Path) -> None:
        with partial.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, columns, lineterminator="\n")
            table.writeheader()
            table.writerows(rows)

    replace_file(path, write)
