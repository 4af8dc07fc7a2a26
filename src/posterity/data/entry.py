"""What the registry knows of a data set. Each family's file declares its own in `DATASETS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args

from posterity.core.errors import UsageError
from posterity.data.cache import cache_file
from posterity.data.dataset import Dataset, Task
from posterity.data.sources import Source, is_available, obtain
from posterity.data.splits import Splits

Origin = Literal["embedded", "fetched", "local", "registered"]
Option = Literal["seed", "split"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A data set: what it is, as far as that is known before it is loaded, and how it is loaded.

    `load` takes the options in `options` as keywords, and is None where there is only a test set; then, or
    where the test data can be read without the others, `load_test` reads them. `fetch` brings the data onto
    this machine, if they are not part of the library.
    """

    task: Task | None = None
    shape: tuple[int, ...] = ()
    num_test: int = 0
    num_train: int = 0
    num_classes: int = 0
    load: Callable[..., Splits] | None = None
    load_test: Callable[[], Dataset] | None = None
    options: tuple[Option, ...] = ()
    origin: Origin = "embedded"
    available: Callable[[], bool] = lambda: True
    fetch: Callable[[bool], Path] | None = None


def fetched_images(
    source: Source, read: Callable[[str], Dataset], *, shape: tuple[int, ...], num_classes: int
) -> Entry:
    """The entry of labelled images with a source; `read` loads its part "train", if it has that, or "test"."""
    # The arrays of a part, such as train_x and train_y, have its name before an underscore, or are just that.
    rows = {name.partition("_")[0]: expected.shape[0] for name, expected in source.arrays.items()}

    def fetch(progress: bool) -> Path:
        obtain(source, progress=progress)
        return cache_file(source.name)

    return Entry(
        task="classification",
        shape=shape,
        num_test=rows["test"],
        num_train=rows.get("train", 0),
        num_classes=num_classes,
        load=(lambda: Splits(read("train"), read("test"))) if "train" in rows else None,
        load_test=lambda: read("test"),
        origin="fetched",
        available=lambda: is_available(source),
        fetch=fetch,
    )


def entry_of(name: str, source: Any) -> Entry:
    """The entry of a data set from outside: an entry, or a function of `seed` and `split`, as far as it takes them.

    It returns Splits, or training and test data, each a Dataset or a pair (x, y).
    """
    if isinstance(source, Entry):
        return source
    if not callable(source):
        raise UsageError(f"the data set '{name}' must be a function that returns its data, not {source!r}")

    def load(**options: Any) -> Splits:
        found = source(**options)
        if isinstance(found, Splits):
            return found
        try:
            train, test = (part if isinstance(part, Dataset) else Dataset.from_arrays(*part) for part in found)
        except TypeError as error:
            raise UsageError(
                f"the data set '{name}' must return training and test data, each a Dataset or a pair (x, y): {error}"
            ) from error
        return Splits(train, test)

    taken = tuple(option for option in get_args(Option) if option in signature(source).parameters)
    return Entry(load=load, options=taken, origin="registered")
