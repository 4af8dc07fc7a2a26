"""A table of results for elsewhere: pandas, CSV, JSON, Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posterity.core.errors import UsageError, unknown_name
from posterity.experiments.row import Row
from posterity.storage import replace_file, write_text

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".json", ".parquet")


def lines(rows: Sequence[Row], settings: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """A dict a row; a name that is a setting's and a metric's, or the row's own, has its part's before it."""
    both = (set(settings) & set(metrics)) | {"key", "state", "error", "folder"}
    return [
        {
            "key": row.key,
            "state": row.state,
            **{f"config.{n}" if n in both else n: row.config.get(n) for n in settings},
            **{f"metrics.{n}" if n in both else n: row.metrics.get(n, math.nan) for n in metrics},
            "error": row.error,
            "folder": "" if row.folder is None else str(row.folder),
        }
        for row in rows
    ]


def frame(table: list[dict[str, Any]]) -> pd.DataFrame:
    """As pandas has it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise UsageError("pandas is not installed: pip install pandas, or write a .csv or .json file") from error
    return pd.DataFrame(table)


def write_table(table: list[dict[str, Any]], path: Path) -> None:
    """As CSV, JSON or Parquet, by the file's suffix."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise unknown_name("kind of file", path.suffix or path.name, SUFFIXES)
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, table[0] if table else ["key"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in line.items()} for line in table)
        write_text(path, text.getvalue())
    elif suffix == ".json":
        write_text(path, json.dumps([plain(line) for line in table], indent=1) + "\n")
    else:
        found = frame(_uniform(table))
        try:
            replace_file(path, found.to_parquet)
        except ImportError as error:
            raise UsageError("Parquet needs pyarrow: pip install pyarrow, or write a .csv or .json file") from error


def plain(line: dict[str, Any]) -> dict[str, Any]:
    """For JSON, which has no nan."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in line.items()}


def _cell(value: Any) -> Any:
    """For CSV: nothing for what there is not."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def _uniform(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For Parquet, whose columns are of one kind: one that has words (`auto` beside 0.1) has words alone."""
    words = {name for line in table for name, value in line.items() if isinstance(value, (str, tuple))}
    return [{n: str(_cell(v)) if n in words and v is not None else v for n, v in line.items()} for line in table]
