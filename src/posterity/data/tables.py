"""Reading `.csv` files, also packed (`.csv.gz`): a header, then numbers, text and gaps, as columns (data.frames).

The separator is the one of , ; tab | that the header has most often. Beside ; a decimal comma is understood. A cell is
missing where it is empty, NA, N/A, NaN, null, None or ?. A column in which half of the cells are numbers is one of
numbers: an odd word in it is a mistake, which is refused with its line, rather than a category.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError, DataError
from posterity.data.frames import Column, Table, distinct

SEPARATORS = ",;\t|"
PACKED = ".gz"
_GAPS = {"", "na", "n/a", "nan", "null", "none", "?"}
_TRUTH = {"true": 1.0, "false": 0.0}

Rows = Iterator[tuple[int, list[str]]]  # each line's number and cells


def read_table(path: Path) -> Table:
    """The columns by name."""
    numbers, lines, texts = array("d"), array("q"), Counter[int]()
    decimal = "," if _separator(path) == ";" else "."
    with closing(_rows(path)) as rows:
        names = _names(rows, path)
        for line, row in _full(rows, names, path):
            lines.append(line)
            try:
                numbers.extend([float(cell) for cell in row])  # nearly all rows of nearly all files
            except ValueError:
                values = [_number(cell, decimal) for cell in row]
                texts.update(place for place, value in enumerate(values) if value is None)
                numbers.extend(math.nan if value is None else value for value in values)
    if not lines:
        raise DataError(f"{path} has a header but no rows.")
    table = np.array(numbers).reshape(-1, len(names))
    found: Table = {name: table[:, place] for place, name in enumerate(names)}
    for place, cells in _cells(path, sorted(texts)).items():
        column, odd = _text_column(cells, found[names[place]])
        if odd is not None:
            raise DataError(
                f"{path}, line {lines[odd]}, column '{names[place]}': '{cells[odd]}' is not a number, as others in the "
                "column are; correct it, or leave the cell empty if the value is missing."
            )
        found[names[place]] = column
    return found


def _cells(path: Path, places: Sequence[int]) -> dict[int, list[str]]:
    """The cells of some columns as they are written: the file is read again, if there are any."""
    cells: dict[int, list[str]] = {place: [] for place in places}
    if places:
        with closing(_rows(path)) as rows:
            for _, row in _full(rows, _names(rows, path), path):
                for place in places:
                    cells[place].append(row[place].strip())
    return cells


def _text_column(cells: list[str], numbers: NDArray[np.float64]) -> tuple[Column, int | None]:
    """Truth values, categories, or numbers with a mistake among them: then its row, too."""
    known = [row for row, cell in enumerate(cells) if cell.lower() not in _GAPS]
    if all(cells[row].lower() in _TRUTH for row in known):
        return np.array([_TRUTH.get(cell.lower(), math.nan) for cell in cells]), None
    if 2 * np.count_nonzero(~np.isnan(numbers)) >= len(known):
        return numbers, next(row for row in known if math.isnan(numbers[row]))
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if cell.lower() in _GAPS else cell for cell in cells]
    return column, None


def _number(cell: str, decimal: str) -> float | None:
    """A cell's number, NaN where it is missing, None where it is text."""
    try:
        return float(cell.replace(decimal, ".") if decimal != "." else cell)
    except ValueError:
        return math.nan if cell.strip().lower() in _GAPS else None


def _rows(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Each line's number and cells."""
    mark = _separator(path)
    reader = None
    try:
        with _open(path) as file:
            reader = csv.reader(file, delimiter=mark)
            for row in reader:
                yield reader.line_num, row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFileError(f"cannot read {path} as a UTF-8 .csv file: {error}.") from error


def _open(path: Path):  # type: ignore[no-untyped-def]
    """The file's text."""
    opened = gzip.open if path.suffix.lower() == PACKED else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def _separator(path: Path) -> str:
    """What stands between the cells: a comma, unless the header has another mark more often, outside of quotes."""
    try:
        with _open(path) as file:
            header = re.sub('"[^"]*"', "", file.readline())
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CorruptFileError(f"cannot read {path} as a UTF-8 .csv file: {error}.") from error
    return max(SEPARATORS, key=header.count)


def _names(rows: Rows, path: Path) -> list[str]:
    """The names in the first of the rows."""
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    if not names:
        raise DataError(f"{path} is empty; expected a header with the columns' names.")
    if not any(_number(name, ".") is None for name in names):
        raise DataError(f"{path} begins with numbers ({', '.join(names[:3])}); add a header with names.")
    return distinct(names, str(path))


def _full(rows: Rows, names: list[str], path: Path) -> Rows:
    """The rows that are not blank, each with a cell for each name."""
    for line, row in rows:
        if row and len(row) != len(names):
            raise DataError(f"{path}, line {line} has {len(row)} cells, but the header names {len(names)} columns.")
        if row:
            yield line, row
