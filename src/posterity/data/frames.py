"""Tables of any origin as plain columns: numpy arrays, pandas and polars frames, dicts of columns.

A column is float64 with NaN for what is missing, or an object array of text with None. Truth values are 0 and 1.
Neither pandas nor polars is imported: their frames are asked for what both of them have.

    numbers, truth values            float64
    strings, categories              text; also categories that are numbers, since someone chose to call them that
    dates, times, durations          refused: what to make of them is the user's to know
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import DataError

Column = NDArray[Any]  # float64, or object: text and None
Table = dict[str, Column]

DATE_ADVICE = (
    "make numbers of it that say what matters, such as days since the first one, year, month, weekday, or the time of "
    "day as sine and cosine; or drop the column"
)
_TIMES = re.compile(r"date|time|period|duration")
_NUMBERS = re.compile(r"u?int(eger)?(?!erval)|float|double|half|bool|decimal")
_DATE_TEXT = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( .*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)


def is_frame(x: Any) -> bool:
    """Whether `x` has named columns: a pandas or polars frame, or a dict of columns."""
    if isinstance(x, Mapping):
        return not hasattr(x, "shape")  # as some sparse arrays have, which are dicts, too
    return hasattr(x, "columns") and hasattr(x, "shape")


def names_of(x: Any) -> list[str]:
    """The names of a frame's columns, which must be different text."""
    names = list(x) if isinstance(x, Mapping) else list(x.columns)
    return distinct([str(name) for name in names], "the table")


def distinct(names: list[str], what: str) -> list[str]:
    """The names, if no two are the same."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{what} has more than one column '{name}'; give each a name of its own.")
        seen.add(name)
    return names


def table_of(x: Any) -> Table:
    """The columns of a frame by name; those of an array (n, d) are x0, x1, ..."""
    if is_frame(x):
        own = list(x) if isinstance(x, Mapping) else list(x.columns)
        table = {name: column_of(x[key], name) for name, key in zip(names_of(x), own, strict=True)}
    else:
        array = np.asarray(x)
        if array.ndim != 2:
            raise DataError(f"a table has rows and columns, but this has the shape {array.shape}.")
        table = {f"x{j}": column_of(array[:, j], f"x{j}") for j in range(array.shape[1])}
    if not table:
        raise DataError("the table has no columns.")
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the table's columns have different lengths: {lengths}.")
    return table


def column_of(series: Any, name: str) -> Column:
    """One column; `series` is an array, a list, or a pandas or polars series."""
    kind = str(getattr(series, "dtype", "object")).lower()
    if _TIMES.match(kind):
        raise DataError(f"column '{name}' holds dates or times ({kind}); {DATE_ADVICE}.")
    if isinstance(series, np.ndarray) and series.dtype.kind in "biuf":
        return series.astype(np.float64)
    if _NUMBERS.match(kind) and not kind.startswith("interval"):
        return _numbers(series)
    values = series.to_list() if hasattr(series, "to_list") else list(series)
    chosen = kind.startswith(("categor", "enum"))
    return _of_values(values, name, categories=chosen)


def text_of(value: Any) -> str:
    """A category's name: 1 and 1.0 are the same one."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def are_dates(texts: Iterable[str]) -> bool:
    """Whether all of them are written like dates or times of day."""
    found = False
    for text in texts:
        if not _DATE_TEXT.fullmatch(text.strip()):
            return False
        found = True
    return found


def _numbers(series: Any) -> Column:
    if hasattr(series, "cast"):  # polars
        return np.array(series.to_list(), dtype=np.float64)
    return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _of_values(values: Sequence[Any], name: str, *, categories: bool) -> Column:
    """Python objects: all numbers, or text."""
    gaps = [_is_missing(value) for value in values]
    known = [value for value, gap in zip(values, gaps, strict=True) if not gap]
    if any(isinstance(value, (datetime.date, datetime.time, datetime.timedelta, np.datetime64)) for value in known):
        raise DataError(f"column '{name}' holds dates or times; {DATE_ADVICE}.")
    odd = next((value for value in known if not isinstance(value, (str, bool, int, float, np.generic))), None)
    if odd is not None and not hasattr(odd, "as_tuple"):  # a Decimal
        raise DataError(
            f"column '{name}' holds a {type(odd).__name__} ({str(odd)[:40]!r}); give numbers, text, categories or "
            "truth values."
        )
    if not categories and not any(isinstance(value, str) for value in known):
        return np.array([np.nan if gap else float(value) for value, gap in zip(values, gaps, strict=True)])
    column = np.empty(len(values), dtype=object)
    column[:] = [None if gap else text_of(value) for value, gap in zip(values, gaps, strict=True)]
    return column


def _is_missing(value: Any) -> bool:
    """None, NaN, and pandas's NA and NaT, which are not equal to themselves."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
