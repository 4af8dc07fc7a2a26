"""Results: runs as a table. A row a run: what it was (config), what came of it (metrics), how it ended (state).

    Results.of(records)      of runs that were read
    Results.read(folder)     of a sweep's folder, or of all runs below a folder

Columns have plain names: a setting (`lr`; `optimizer_options.momentum`, or `momentum` where that is clear), a metric on
the test data (`accuracy`), after the last epoch (`val_nll`, `train_nll`, `kl`, `loss`), on other data
(`notmnist.auroc`) or of the average (`average.nll`). A name that is both is given as `config.noise` or `metrics.noise`.

Numbers over runs are over those that have them: a diverged run has no accuracy. It counts in `success_rate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import UsageError, unknown_name
from posterity.core.randomness import derive
from posterity.experiments.record import Record
from posterity.experiments.row import BAD, FINISHED, PARTS, RUNNING, WAITING, Row
from posterity.experiments.tables import frame, lines, write_table

if TYPE_CHECKING:
    import pandas as pd

GROWING = ("accuracy", "auroc", "aupr", "log_likelihood")  # metrics of which more is better; of others less is
BOOTSTRAPS = 10_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, init=False, repr=False)
class Results(Sequence[Row]):
    """Rows; what is asked of them by name is explained in the module. A part of them has the columns of the whole."""

    rows: tuple[Row, ...]
    columns: Mapping[str, Sequence[str]]

    def __init__(self, rows: Iterable[Row], columns: Mapping[str, Sequence[str]] | None = None) -> None:
        object.__setattr__(self, "rows", tuple(rows))
        own = {part: list(dict.fromkeys(n for row in self.rows for n in row.part(part))) for part in PARTS}
        object.__setattr__(self, "columns", own if columns is None else columns)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        """Of runs that were read."""
        return cls(Row.of(record) for record in records)

    @classmethod
    def read(cls, folder: str | Path, *, storage: str | None = None) -> Results:
        """Of the sweep in `folder`, from its own storage or the one given; or of all runs below it, by their paths."""
        if (Path(folder) / "study.toml").exists():
            from posterity.experiments.sweep import read_sweep  # which is made of rows itself

            return read_sweep(folder, storage=storage)
        found = sorted(Path(folder).rglob("config.toml"))
        if not found:
            raise UsageError(f"there are no runs in {folder}")
        return cls.of(Record.read(path.parent) for path in found)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self._part(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __add__(self, other: Results) -> Results:
        return Results((*self.rows, *other.rows))

    def __repr__(self) -> str:
        states = [row.state for row in self.rows]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"Results({len(self)} rows: {counts})" if self.rows else "Results(no rows)"

    # Columns

    def varying(self) -> list[str]:
        """The settings that differ between rows."""
        return [name for name in self.columns["config"] if len({row.config.get(name) for row in self.rows}) > 1]

    def column(self, name: str) -> list[Any]:
        """A setting's or a metric's value in each row; of a missing setting None, of a missing metric nan."""
        part, key = self.place(name)
        return [row.part(part).get(key, math.nan if part == "metrics" else None) for row in self.rows]

    def values(self, name: str) -> Floats:
        """The numbers of a column, in the rows that have one."""
        found = np.array([math.nan if value is None else value for value in self.column(name)], dtype=np.float64)
        return found[~np.isnan(found)]

    def place(self, name: str) -> tuple[str, str]:
        """In which part of a row, and under which name there."""
        head, _, rest = name.partition(".")
        parts = self.columns
        if rest in parts.get(head, ()):
            return head, rest
        found = [(part, name) for part, names in parts.items() if name in names]
        found = [each for each in found if each[0] != "row"] or found  # a metric may be called error
        found = found or [(p, key) for p, names in parts.items() for key in names if key.endswith(f".{name}")]
        if not found and any(parts["config"]):
            known = {key for names in parts.values() for key in names}
            raise unknown_name("column", name, sorted(known | {key.rpartition(".")[2] for key in known}))
        if len(found) > 1:
            raise UsageError(f"'{name}' is several columns: give {' or '.join('.'.join(each) for each in found)}")
        return found[0] if found else ("metrics", name)

    # Choosing rows

    def _part(self, rows: Iterable[Row]) -> Results:
        return Results(rows, self.columns)

    def filter(self, keep: Callable[[Row], bool]) -> Results:
        """The rows for which `keep` is true."""
        return self._part(row for row in self.rows if keep(row))

    def where(self, **wanted: Any) -> Results:
        """The rows with these values; a function is asked: `where(optimizer="sgd", lr=lambda lr: lr < 0.1)`."""
        tests = {name: value if callable(value) else (value,).__contains__ for name, value in wanted.items()}
        columns = {name: self.column(name) for name in tests}
        fits = [all(test(columns[name][i]) for name, test in tests.items()) for i in range(len(self))]
        return self._part(row for row, fit in zip(self.rows, fits, strict=True) if fit)

    @property
    def finished(self) -> Results:
        """Those that came to their end."""
        return self.filter(lambda row: row.state == FINISHED)

    def group_by(self, *names: str) -> dict[Any, Results]:
        """Results by the value of a column, or by the tuple of several columns' values, in order of appearance."""
        columns = [self.column(name) for name in names]
        keys = columns[0] if len(names) == 1 else list(zip(*columns, strict=True))
        groups: dict[Any, list[Row]] = {}
        for key, row in zip(keys, self.rows, strict=True):
            groups.setdefault(key, []).append(row)
        return {key: self._part(rows) for key, rows in groups.items()}

    def ranked(self, name: str, *, lowest: bool | None = None) -> Results:
        """The rows that have a number there, the best one first."""
        down = is_lower_better(name) if lowest is None else lowest
        having = [(value, row) for value, row in zip(self.column(name), self.rows, strict=True) if _is_number(value)]
        return self._part(row for _, row in sorted(having, key=lambda pair: pair[0] if down else -pair[0]))

    def best(self, name: str, *, lowest: bool | None = None) -> Row:
        """The row with the best value; `lowest` says which that is where the name does not."""
        ranked = self.ranked(name, lowest=lowest)
        if not ranked:
            raise UsageError(f"no row has a number for '{name}'")
        return ranked.rows[0]

    # Numbers over rows

    def mean(self, name: str) -> float:
        """The mean; nan of none."""
        values = self.values(name)
        return float(values.mean()) if len(values) else math.nan

    def sd(self, name: str) -> float:
        """The standard deviation (of a sample); nan of fewer than two."""
        values = self.values(name)
        return float(values.std(ddof=1)) if len(values) > 1 else math.nan

    def standard_error(self, name: str) -> float:
        """Of the mean."""
        return self.sd(name) / math.sqrt(max(1, len(self.values(name))))

    def bootstrap(self, name: str, *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
        """An interval of the mean: percentiles over resampled rows; nan of none."""
        values = self.values(name)
        if not len(values):
            return math.nan, math.nan
        picks = np.random.default_rng(derive(seed, "bootstrap")).integers(len(values), size=(BOOTSTRAPS, len(values)))
        low, high = np.quantile(values[picks].mean(1), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def success_rate(self, name: str, *, above: float) -> float:
        """The share of rows that got above a threshold; a bad one did not, one that waits is left out."""
        tried = self.filter(lambda row: row.state not in (WAITING, RUNNING))
        return float((tried.values(name) > above).sum() / len(tried)) if len(tried) else math.nan

    def summary(self, by: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """A row a group: its values, how many, how many bad, and of each metric mean, sd, standard error and best."""
        found = []
        for key, group in (self.group_by(*by) if by else {(): self}).items():
            line = dict(zip(by, key if len(by) != 1 else (key,), strict=True))
            line |= {"count": len(group), "bad": sum(row.state in BAD for row in group)}
            for name in names:
                line[f"{name}.mean"], line[f"{name}.sd"] = group.mean(name), group.sd(name)
                line[f"{name}.standard_error"] = group.standard_error(name)
                values = group.values(name)
                best = values.min if is_lower_better(name) else values.max
                line[f"{name}.best"] = float(best()) if len(values) else math.nan
            found.append(line)
        return found

    def histories(self, name: str) -> tuple[NDArray[np.int64], Floats]:
        """Epochs 1..E, and (runs, E) values after each; nan where a run has none. Members are averaged."""
        courses: list[dict[int, list[float]]] = []
        for row in self.rows:
            course: dict[int, list[float]] = {}
            for record in row.history:
                if record.get(name) is not None:
                    course.setdefault(record["epoch"], []).append(record[name])
            courses.append(course)
        if self.rows and not any(courses):
            known = {key for row in self.rows for record in row.history[-1:] for key in record}
            raise unknown_name("number of an epoch", name, known)
        epochs = np.arange(1, max((epoch for course in courses for epoch in course), default=0) + 1)
        table = [[float(np.mean(course.get(int(e), [math.nan]))) for e in epochs] for course in courses]
        return epochs, np.array(table, dtype=np.float64).reshape(len(courses), len(epochs))

    # For elsewhere

    def table(self, *, every: bool = False) -> list[dict[str, Any]]:
        """A dict a row: key, state, the settings that vary (or `every` one), seed, metrics, error and folder."""
        names = (
            self.columns["config"] if every else [n for n in self.columns["config"] if n in {"seed", *self.varying()}]
        )
        return lines(self.rows, names, self.columns["metrics"])

    def to_pandas(self, *, every: bool = False) -> pd.DataFrame:
        """The table as a data frame."""
        return frame(self.table(every=every))

    def write(self, path: str | Path, *, every: bool = False) -> None:
        """The table as a file: .csv, .json or .parquet."""
        write_table(self.table(every=every), Path(path))


def is_lower_better(name: str) -> bool:
    """Whether less is better, by a metric's name."""
    return not name.rpartition(".")[2].endswith(GROWING)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
