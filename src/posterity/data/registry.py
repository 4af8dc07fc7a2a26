"""All data sets by name, and the functions that load, describe and fetch them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posterity.core.errors import UsageError, unknown_name
from posterity.data import cifar, idx, synthetic, tabular, uci
from posterity.data.dataset import Dataset, Task
from posterity.data.entry import Entry, Origin
from posterity.data.files import is_file_name, read_splits
from posterity.data.splits import Splits

_ENTRIES: dict[str, Entry] = {
    name: entry for family in (cifar, idx, synthetic, tabular, uci) for name, entry in family.DATASETS.items()
}


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is; `num_train` is 0 where there is only a test set."""

    name: str
    task: Task
    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    origin: Origin
    available: bool


def names() -> list[str]:
    """Names of all data sets."""
    return sorted(_ENTRIES)


def describe() -> list[DatasetInfo]:
    """What there is, in the order of `names`; opens no data."""
    return [
        DatasetInfo(name, e.task, e.shape, e.num_train, e.num_test, e.num_classes, e.origin, e.available())
        for name, e in sorted(_ENTRIES.items())
    ]


def load(
    name: str,
    *,
    split: int = 0,
    seed: int = 0,
    target: str | None = None,
    task: Task | None = None,
    **tables: Any,
) -> Splits:
    """Training and test data by name, or of a `.npz` or `.csv` file by its path.

    `split` numbers the standard splits of UCI sets; `seed` draws synthetic data, and the fifth of a
    file's rows that become test data; `target` names a `.csv` file's target column; `task` overrides
    what a file's targets suggest; `tables` are the options of `read_splits` for a `.csv`, which mean nothing to others.
    """
    if name not in _ENTRIES and is_file_name(name):
        _refuse(name, split=split)
        return read_splits(Path(name), seed=seed, target=target, task=task, **tables)
    entry = _entry(name)
    _refuse(name, target=target, task=task, split=0 if "split" in entry.options else split)
    if entry.load is None:
        raise UsageError(f"'{name}' has only test data, nothing to train on; load it with load_test.")
    given = {"seed": seed, "split": split}
    return entry.load(**{option: given[option] for option in entry.options})


def is_seeded(name: str) -> bool:
    """Whether the seed decides what `load` gives: synthetic data, and the test rows of a file."""
    return name not in _ENTRIES or "seed" in _ENTRIES[name].options


def load_test(
    name: str,
    *,
    split: int = 0,
    seed: int = 0,
    target: str | None = None,
    task: Task | None = None,
    **tables: Any,
) -> Dataset:
    """The test data only, which every data set has; arguments as for `load`."""
    entry = None if is_file_name(name) else _entry(name)
    if entry is None or entry.load_test is None:
        return load(name, split=split, seed=seed, target=target, task=task, **tables).test
    _refuse(name, split=split, target=target, task=task)
    return entry.load_test()


def fetch(name: str, *, progress: bool = True) -> Path:
    """Make sure that a data set is on this machine, whole; returns its file."""
    entry = _entry(name)
    if entry.fetch is None:
        raise UsageError(f"'{name}' comes with the library, there is nothing to fetch; load it.")
    return entry.fetch(progress)


def _entry(name: str) -> Entry:
    if name not in _ENTRIES:
        raise unknown_name("data set", name, _ENTRIES)
    return _ENTRIES[name]


def _refuse(name: str, **given: object) -> None:
    """An option that would have no effect is a mistake to point out."""
    for option, value in given.items():
        if value:
            raise UsageError(f"{option}={value!r} means nothing for '{name}'; leave it out.")
