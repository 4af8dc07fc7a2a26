"""All data sets by name, and the functions that load, describe and fetch them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from posterity.core.errors import UsageError, unknown_name
from posterity.data import cifar, idx, synthetic, tabular, uci
from posterity.data.cache import cache_file
from posterity.data.dataset import Dataset, Splits, Task
from posterity.data.files import SUFFIXES, read_splits
from posterity.data.sources import Source, is_available, obtain

Origin = Literal["embedded", "fetched", "local"]


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


@dataclass(frozen=True)
class Embedded:
    """A data set that comes with the library; `make` takes the seed."""

    task: Task
    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    make: Callable[[int], Splits]


@dataclass(frozen=True)
class Fetched:
    """A data set of images with a source; `part` loads "train" or "test"."""

    source: Source
    shape: tuple[int, ...]
    num_train: int
    num_classes: int
    part: Callable[[Source, str], Dataset]


def _grey(source: Source, num_train: int = 60000) -> Fetched:
    return Fetched(source, (1, 28, 28), num_train, 10, idx.grey_images)


_EMBEDDED = {
    "digits": Embedded("classification", (1, 8, 8), 1437, 360, 10, lambda seed: tabular.digits()),
    "diabetes": Embedded("regression", (10,), 353, 89, 0, lambda seed: tabular.diabetes()),
    "gap": Embedded("regression", (1,), 100, 200, 0, synthetic.gap),
    "two-moons": Embedded("classification", (2,), 400, 200, 2, synthetic.two_moons),
    "and": Embedded("binary", (2,), 4, 4, 0, lambda seed: synthetic.truth_table_and()),
}
_FETCHED = {
    "mnist": _grey(idx.MNIST),
    "fashion-mnist": _grey(idx.FASHION_MNIST),
    "kmnist": _grey(idx.KMNIST, num_train=0),
    "notmnist": _grey(idx.NOTMNIST, num_train=0),
    "cifar10": Fetched(cifar.CIFAR10, (3, 32, 32), 50000, 10, cifar.colour_images),
    "cifar100": Fetched(cifar.CIFAR100, (3, 32, 32), 50000, 100, cifar.colour_images),
}


def names() -> list[str]:
    """Names of all data sets."""
    return sorted([*_EMBEDDED, *_FETCHED, *uci.SETS])


def describe() -> list[DatasetInfo]:
    """What there is, in the order of `names`; opens no data."""
    return [_describe(name) for name in names()]


def load(name: str, *, split: int = 0, seed: int = 0, target: str | None = None, task: Task | None = None) -> Splits:
    """Training and test data by name, or of a `.npz` or `.csv` file by its path.

    `split` numbers the standard splits of UCI sets; `seed` draws synthetic data, and the fifth of a
    file's rows that become test data; `target` names a `.csv` file's target column; `task` overrides
    what a file's targets suggest.
    """
    if Path(name).suffix.lower() in SUFFIXES:
        _refuse(name, split=split)
        return read_splits(Path(name), seed=seed, target=target, task=task)
    _refuse(_known(name), target=target, task=task, split=0 if name in uci.SETS else split)
    if name in _EMBEDDED:
        return _EMBEDDED[name].make(seed)
    if name in uci.SETS:
        return uci.uci(name, split)
    entry = _FETCHED[name]
    if not entry.num_train:
        raise UsageError(f"'{name}' has only test data, nothing to train on; load it with load_test.")
    return Splits(entry.part(entry.source, "train"), entry.part(entry.source, "test"))


def load_test(
    name: str, *, split: int = 0, seed: int = 0, target: str | None = None, task: Task | None = None
) -> Dataset:
    """The test data only, which every data set has; arguments as for `load`."""
    if name in _FETCHED:
        _refuse(name, split=split, target=target, task=task)
        return _FETCHED[name].part(_FETCHED[name].source, "test")
    return load(name, split=split, seed=seed, target=target, task=task).test


def fetch(name: str, *, progress: bool = True) -> Path:
    """Make sure that a data set is on this machine, whole; returns its file."""
    if _known(name) in _EMBEDDED:
        raise UsageError(f"'{name}' comes with the library, there is nothing to fetch; load it.")
    if name in uci.SETS:
        return uci.find_uci(name)
    obtain(_FETCHED[name].source, progress=progress)
    return cache_file(name)


def _known(name: str) -> str:
    if name not in names():
        raise unknown_name("data set", name, names())
    return name


def _refuse(name: str, **given: object) -> None:
    """An option that would have no effect is a mistake to point out."""
    for option, value in given.items():
        if value:
            raise UsageError(f"{option}={value!r} means nothing for '{name}'; leave it out.")


def _describe(name: str) -> DatasetInfo:
    if name in _EMBEDDED:
        made = _EMBEDDED[name]
        sizes = (made.num_train, made.num_test, made.num_classes)
        return DatasetInfo(name, made.task, made.shape, *sizes, "embedded", True)
    if name in uci.SETS:
        facts = uci.SETS[name]
        sizes, here = (facts.num_train, facts.num_test, 0), uci.uci_file(name) is not None
        return DatasetInfo(name, "regression", (facts.num_features,), *sizes, "local", here)
    entry = _FETCHED[name]
    sizes, here = (entry.num_train, 10000, entry.num_classes), is_available(entry.source)
    return DatasetInfo(name, "classification", entry.shape, *sizes, "fetched", here)
