"""Reading `.csv` files: a header and numbers, and an error that names the line and the column at fault."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError, DataError

_MAX_LISTED = 20  # names in a message: a table may have thousands of columns


def read_header(path: Path) -> list[str]:
    """The columns' names; reads no further."""
    with closing(_rows(path)) as rows:
        return _names(rows, path)


def read_table(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """The columns' names and the numbers (rows, columns)."""
    values = array("d")
    rows = _rows(path)
    names = _names(rows, path)
    for line, row in rows:
        if row:
            values.extend(_numbers(row, names, f"{path}, line {line}"))
    if not values:
        raise DataError(f"{path} has a header but no rows.")
    return names, np.array(values).reshape(-1, len(names))


def listed(names: Sequence[str]) -> str:
    """The names, or the first of them, for a message."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


def _rows(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Each line's number and cells."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in reader:
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFileError(f"cannot read {path} as a UTF-8 .csv file: {error}.") from error


def _names(rows: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    """The names in the first of the rows."""
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    if not names:
        raise DataError(f"{path} is empty; expected a header with the columns' names.")
    if all(_is_number(name) for name in names):
        raise DataError(f"{path} begins with numbers ({', '.join(names[:3])}); add a header with names.")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path} has more than one column '{name}'; give each a name of its own.")
        seen.add(name)
    return names


def _numbers(row: list[str], names: list[str], where: str) -> list[float]:
    if len(row) != len(names):
        raise DataError(f"{where} has {len(row)} cells, but the header names {len(names)} columns.")
    try:
        return [float(cell) for cell in row]
    except ValueError:
        column = next(number for number, cell in enumerate(row) if not _is_number(cell))
        raise DataError(
            f"{where}, column '{names[column]}': '{row[column]}' is not a number; "
            "fill gaps, and number categories and classes from 0."
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
