"""Columns: what was learnt of a table with text and gaps, and how it becomes numbers for a network.

    number                 its value; where it is missing the mean of the training rows
                           + 1 where it is missing, else 0, if that occurred in training
    category, few values   a feature each, 1 for its own; missing is a value of its own if it occurred in training
    category, many values  a code for an embedding (models.embedded), at the end of the row, 0 for an unknown value

A value that did not occur in training, or a gap where there was none, is all zeros, or code 0: an embedding that no
datum has moved from its prior. Ones, zeros and codes are not standardised. It is written as JSON and holds no data
beyond the categories' names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.data.frames import DATE_ADVICE, Column, Table, are_dates, text_of

MAX_ONE_HOT = 20  # values of a category that become a feature each; one with more is embedded
MISSING = "(missing)"  # its name among the features
_LISTED = 20  # names in a message


@dataclass(frozen=True)
class Known:
    """What was learnt of one column; a number has no categories, and `fill` where it is missing."""

    name: str
    fill: float | None = None
    gaps: bool = False
    categories: tuple[str, ...] | None = None
    embedded: bool = False

    @property
    def features(self) -> list[str]:
        """The names of the features it becomes, codes aside."""
        if self.categories is None:
            return [self.name, *([f"{self.name} {MISSING}"] if self.gaps else [])]
        return [] if self.embedded else [f"{self.name}={each}" for each in self.values]

    @property
    def values(self) -> tuple[str, ...]:
        """The categories, and a last one for gaps if they occurred."""
        return (self.categories or ()) + ((MISSING,) if self.gaps else ())


@dataclass(frozen=True)
class Columns:
    """The columns of a training table, in order."""

    known: tuple[Known, ...]

    @classmethod
    def of(cls, table: Table, *, max_one_hot: int = MAX_ONE_HOT, embedded: Collection[str] = ()) -> Columns:
        """Learnt from the training rows; columns named in `embedded` are embedded however few values they have."""
        absent = [name for name in embedded if name not in table]
        if absent:
            raise UsageError(f"embedded names {listed(absent)}; the table's columns are {listed(list(table))}.")
        return cls(tuple(_learn(n, column, max_one_hot, n in embedded) for n, column in table.items()))

    @classmethod
    def plain(cls, table: Table) -> Columns:
        """Numbers as they are, where nothing was learnt of them: text and gaps are refused."""
        return cls(tuple(Known(name) for name in table))

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [known.name for known in self.known]

    @property
    def features(self) -> list[str]:
        """Of what a row becomes: the features, then the columns whose codes are embedded."""
        return [f for known in self.known for f in known.features] + [k.name for k in self.known if k.embedded]

    @property
    def codes(self) -> tuple[int, ...]:
        """How many codes each of the embedded columns has, the unknown's 0 included."""
        return tuple(len(known.values) + 1 for known in self.known if known.embedded)

    @property
    def scaled(self) -> list[bool]:
        """For each feature whether it is a quantity, which is standardised."""
        own = [k.categories is None and f == k.name for k in self.known for f in k.features]
        return own + [False] * len(self.codes)

    def encode(self, table: Mapping[str, Column]) -> NDArray[np.float64]:
        """Rows (n, features) of a table that has these columns, found by name."""
        missing = [name for name in self.names if name not in table]
        if missing:
            raise DataError(f"the table lacks the column {listed(missing)} that the network was trained on.")
        rows = len(next(iter(table.values())))
        out = np.zeros((rows, len(self.features)))
        place, code_place = 0, len(self.features) - len(self.codes)
        for known in self.known:
            column = table[known.name]
            if known.categories is None:
                _encode_numbers(known, column, out[:, place:])
            else:
                codes = _codes(known, column)
                if known.embedded:
                    out[:, code_place] = codes
                    code_place += 1
                else:
                    (rows_of,) = np.nonzero(codes)
                    out[rows_of, place + codes[rows_of] - 1] = 1.0
            place += len(known.features)
        return out

    def as_dict(self) -> list[dict[str, Any]]:
        """For a file: plain values."""
        plain = [asdict(known) for known in self.known]
        return [{n: list(v) if isinstance(v, tuple) else v for n, v in known.items()} for known in plain]

    @classmethod
    def from_dict(cls, kept: Sequence[Mapping[str, Any]]) -> Columns:
        """The inverse of `as_dict`."""
        try:
            lists: list[dict[str, Any]] = [dict(known) for known in kept]
            for known in lists:
                if known.get("categories") is not None:
                    known["categories"] = tuple(known["categories"])
            return cls(tuple(Known(**known) for known in lists))
        except (TypeError, AttributeError) as error:
            raise CorruptFileError(f"this does not describe a table's columns: {error}") from error


def listed(names: Sequence[str]) -> str:
    """The names, or the first of them, for a message."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _learn(name: str, column: Column, max_one_hot: int, chosen: bool) -> Known:
    if column.dtype == object or chosen:
        return _learn_category(name, as_text(column), max_one_hot, chosen)
    gaps = np.isnan(column)
    _refuse_infinite(name, column)
    if gaps.all():
        raise DataError(f"column '{name}' has no values at all; drop it.")
    return Known(name, float(column[~gaps].mean()), bool(gaps.any()))


def _learn_category(name: str, column: Column, max_one_hot: int, chosen: bool) -> Known:
    known = [value for value in column if value is not None]
    if not known:
        raise DataError(f"column '{name}' has no values at all; drop it.")
    values = sorted(set(known))
    if are_dates(values):
        raise DataError(f"column '{name}' holds dates or times as text, such as '{values[0]}'; {DATE_ADVICE}.")
    if len(values) == len(known) > max_one_hot:
        raise DataError(
            f"column '{name}' has another text in every row, such as '{values[0]}': a name or free text, from which "
            "nothing can be learnt for new rows; drop it, or make categories or numbers of it."
        )
    gaps = len(known) < len(column)
    return Known(name, None, gaps, tuple(values), embedded=chosen or len(values) > max_one_hot)


def as_text(column: Column) -> Column:
    """A column of categories, whatever they are written as."""
    if column.dtype == object:
        return column
    text = np.empty(len(column), dtype=object)
    text[:] = [None if np.isnan(value) else text_of(value) for value in column]
    return text


def _encode_numbers(known: Known, column: Column, out: NDArray[np.float64]) -> None:
    if column.dtype == object:
        column = _parsed(known.name, column)
    _refuse_infinite(known.name, column)
    gaps = np.isnan(column)
    if known.fill is None and gaps.any():
        raise DataError(
            f"column '{known.name}' is missing (NaN) in {gaps.sum()} of {len(column)} rows, first in row "
            f"{gaps.argmax()}, and it is not known what to fill it with; fill the gaps."
        )
    out[:, 0] = np.where(gaps, known.fill or 0.0, column)
    if known.gaps:
        out[:, 1] = gaps


def _codes(known: Known, column: Column) -> NDArray[np.int64]:
    """1, 2, ... for the values, 0 for what is unknown."""
    code = {value: number for number, value in enumerate(known.values, 1)}
    return np.array([code.get(MISSING if value is None else value, 0) for value in as_text(column)], dtype=np.int64)


def _parsed(name: str, column: Column) -> NDArray[np.float64]:
    """Text where training had numbers: they may be numbers as text, or there are none at all."""
    try:
        return np.array([np.nan if value is None else float(value) for value in column])
    except ValueError as error:
        raise DataError(f"column '{name}' held numbers in training; now there is text: {error}.") from error


def _refuse_infinite(name: str, column: Column) -> None:
    infinite = np.flatnonzero(np.isinf(column))
    if len(infinite):
        raise DataError(
            f"column '{name}' is infinity or a value too large for float64 in {len(infinite)} of {len(column)} rows, "
            f"first in row {infinite[0]}; correct it, or leave it empty if it is missing."
        )
