"""All data sets by name, and the functions that load, describe and fetch them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posterity.core.errors import UsageError
from posterity.core.registry import PluginError, Registry
from posterity.data import cifar, idx, synthetic, tabular, uci
from posterity.data.dataset import Dataset, Task
from posterity.data.entry import Entry, Origin, entry_of
from posterity.data.files import is_file_name, read_splits
from posterity.data.splits import Splits

_OWN: dict[str, Entry] = {
    name: entry for family in (cifar, idx, synthetic, tabular, uci) for name, entry in family.DATASETS.items()
}
DATASETS = Registry[Entry]("data set", "datasets", _OWN, entry_of)


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is, as far as that is known; `num_train` is 0 where there is only a test set."""

    name: str
    task: Task | None
    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    origin: Origin
    available: bool


def names() -> list[str]:
    """Names of all data sets."""
    return DATASETS.available()


def describe() -> list[DatasetInfo]:
    """What there is, in the order of `names`; opens no data. What a broken package offers is left out, and said."""
    found = []
    for name in names():
        try:
            entry = DATASETS[name]
        except PluginError as error:
            warnings.warn(str(error), stacklevel=2)
            continue
        sizes = entry.num_train, entry.num_test, entry.num_classes
        found.append(DatasetInfo(name, entry.task, entry.shape, *sizes, entry.origin, entry.available()))
    return found


def is_here(name: str) -> bool:
    """Whether it can be loaded without fetching anything; a file's name, or an unknown one, counts as here."""
    return name not in DATASETS or DATASETS[name].available()


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
    if name not in DATASETS and is_file_name(name):
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
    return name not in DATASETS or "seed" in DATASETS[name].options


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
    return DATASETS.named(name)


def _refuse(name: str, **given: object) -> None:
    """An option that would have no effect is a mistake to point out."""
    for option, value in given.items():
        if value:
            raise UsageError(f"{option}={value!r} means nothing for '{name}'; leave it out.")
