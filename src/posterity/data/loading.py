"""Data that a torch Dataset or DataLoader brings batch by batch: augmented, streamed, larger than memory.

    map-style Dataset    we draw the order of the rows, and fetch them one by one in this process
    DataLoader           its own sampler, batches, workers and collation
    IterableDataset      by a DataLoader without workers, or by one of yours

What a batch is: data.collation.

num_data (p): the rows of the dataset, or of its sampler if it chooses fewer for good (a RandomSampler or a
WeightedRandomSampler of `num_samples` draws among all in each epoch: p is the dataset's). A stream must be told.
An epoch has len(loader) batches; that of a stream without a length ceil(num_data / batch_size), and goes on where the
one before ended: a stream that ends begins anew.

Resumption: the order of a map-style Dataset is exact. Of a loader the states of its generators, and of PyTorch's global
one, are kept from where its iteration began, and as many batches as were taken are passed over. That is exact where all
its randomness comes from these: samplers of PyTorch, transforms in this process that draw from PyTorch, and workers
that are started anew in each epoch. Randomness of numpy's or Python's global generator in this process, of samplers
with generators that they do not show as `generator`, and of persistent workers is not kept.

At hand is a sample of at most 2000 rows (and 2**26 values): random ones of a map-style Dataset, the first that a
loader gives.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, WeightedRandomSampler, default_collate
from torch.utils.data import Dataset as TorchDataset

from posterity.core import inputs
from posterity.core.errors import DataError
from posterity.core.inputs import Inputs
from posterity.core.randomness import derive, generator
from posterity.data.batches import Batches
from posterity.data.collation import Reader, joined, most_rows, row_shapes
from posterity.data.dataset import Batch, Dataset, Task
from posterity.data.feeds import Feed, RowBatches
from posterity.data.loader_batches import LoaderBatches, generators_of


@dataclass(frozen=True)
class LoaderData:
    """A torch Dataset or DataLoader, with what cannot be seen from it.

    `num_data` is the number of rows of a stream; `task` and `num_classes` follow from the first targets and the
    network's outputs unless they are given ("binary" must be).
    """

    source: TorchDataset[Any] | DataLoader[Any]
    num_data: int | None = None
    task: Task | None = None
    num_classes: int | None = None
    name: str = "data"

    def __post_init__(self) -> None:
        if not isinstance(self.source, (TorchDataset, DataLoader)):
            raise DataError(f"{self.name}: a {type(self.source).__name__} is neither a torch Dataset nor a DataLoader")
        if self.num_data is not None and self.num_data < 1:
            raise DataError(f"{self.name}: num_data is {self.num_data}; expected the number of rows, at least 1.")

    @property
    def dataset(self) -> TorchDataset[Any]:
        """What the rows come from."""
        return self.source.dataset if isinstance(self.source, DataLoader) else self.source

    @property
    def streams(self) -> bool:
        """Whether the rows come one after the other, and cannot be asked for."""
        return isinstance(self.dataset, IterableDataset)

    def feed(self, *, batch_size: int, seed: int, like: Tensor, width: Callable[[Inputs], int]) -> Feed:
        """What a training is fed from; real numbers have the dtype of `like`, a network of `width` outputs for inputs.

        `batch_size` is that of datasets; a loader has its own.
        """
        if isinstance(self.source, DataLoader):
            return LoaderFeed(self, self.source, self._reader(like.dtype), seed, width)
        if self.streams:
            loader: DataLoader[Any] = DataLoader(self.source, batch_size=batch_size)
            return LoaderFeed(self, loader, self._reader(like.dtype), seed, width)
        return RowFeed(self, batch_size, self._reader(like.dtype), seed, width)

    def whole(self, *, batch_size: int, like: Tensor, num_classes: int) -> Dataset:
        """All rows in memory, for validation."""
        source = self.source
        if self.streams and not hasattr(self.dataset, "__len__"):
            raise DataError(f"{self.name}: validation data are read into memory, and this stream has no known end")
        loader = source if isinstance(source, DataLoader) else DataLoader(source, batch_size=batch_size)
        reader = self._reader(like.dtype)
        with torch.random.fork_rng(devices=[]):
            kept = [reader.read(raw) for raw in loader]
        if not kept:
            raise DataError(f"{self.name}: the validation data have no rows")
        if len({row_shapes(batch) for batch in kept}) > 1:
            raise DataError(f"{self.name}: validation batches have inputs of several shapes; pad all to the same.")
        return reader.dataset(joined(kept), num_classes)

    def _reader(self, dtype: torch.dtype) -> Reader:
        return Reader(self.name, self.task, self.num_classes, dtype)


class RowFeed(Feed):
    """A map-style Dataset: its rows in our order."""

    def __init__(
        self, data: LoaderData, batch_size: int, reader: Reader, seed: int, width: Callable[[Inputs], int]
    ) -> None:
        self._dataset, self._reader = data.dataset, reader
        rows = len(self._dataset)  # type: ignore[arg-type]
        if rows < 1:
            raise DataError(f"{data.name}: the dataset has no rows")
        self.num_data = data.num_data or rows
        self.rows, self.batch_size = rows, min(batch_size, rows)
        self.num_batches = -(-rows // self.batch_size)
        order = torch.randperm(rows, generator=generator(seed, "sample/rows"), device="cpu")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "sample"))
            first = self._fetch(order[:1])
            self.at_hand = reader.sample(self._fetch(order[: most_rows(first)]), width)

    @property
    def checksum(self) -> int:
        """Of sizes and types; values may be another each time."""
        return _checksum(self)

    def batches(self, generator: torch.Generator) -> RowBatches:
        """In an order from `generator`."""
        return RowBatches(Batches(self.rows, self.batch_size, generator), self._fetch)

    def _fetch(self, index: Tensor) -> Batch:
        rows = index.tolist()
        many = getattr(self._dataset, "__getitems__", None)
        items = many(rows) if callable(many) else [self._dataset[row] for row in rows]
        return self._reader.read(default_collate(items))


class LoaderFeed(Feed):
    """A DataLoader."""

    def __init__(
        self, data: LoaderData, loader: DataLoader[Any], reader: Reader, seed: int, width: Callable[[Inputs], int]
    ) -> None:
        self.loader, self.reader, self.streams = loader, reader, data.streams
        first = self._sample(seed, width)
        self.num_data = data.num_data or _num_data(data, loader)
        self.batch_size = min(loader.batch_size or first, self.num_data)
        self.num_batches = _num_batches(loader, self.num_data, self.batch_size)

    @property
    def checksum(self) -> int:
        """Of sizes and types; values may be another each time."""
        return _checksum(self)

    def batches(self, generator: torch.Generator) -> LoaderBatches:
        """In the loader's own order."""
        sizes = {"num_data": self.num_data, "num_batches": self.num_batches}
        return LoaderBatches(self.loader, self.reader.read, **sizes, streams=self.streams)

    def _sample(self, seed: int, width: Callable[[Inputs], int]) -> int:
        """Take what is at hand, leaving all generators as they were; the rows of the first batch."""
        kept: list[Batch] = []
        before = [one.get_state() for one in generators_of(self.loader)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "sample"))
            for raw in self.loader:
                batch = self.reader.read(raw)
                if not kept or row_shapes(batch) == row_shapes(kept[0]):  # others are padded to another length
                    kept.append(batch)
                if sum(len(one.y) for one in kept) >= most_rows(kept[0]):
                    break
        for one, state in zip(generators_of(self.loader), before, strict=True):
            one.set_state(state)
        if not kept:
            raise DataError(f"{self.reader.name}: the loader gives no batch")
        rows = joined(kept)
        most = slice(0, most_rows(kept[0]))
        few = Batch(inputs.take(rows.x, most), rows.y[most], None if rows.weight is None else rows.weight[most])
        self.at_hand = self.reader.sample(few, width)
        return len(kept[0].y)


def _num_data(data: LoaderData, loader: DataLoader[Any]) -> int:
    """The rows that are trained on, see the header."""
    if not hasattr(data.dataset, "__len__"):
        raise DataError(
            f"{data.name}: a {type(data.dataset).__name__} does not tell the number of its rows, by which the KL is "
            "divided: give num_data"
        )
    rows = len(data.dataset)
    sampler = loader.sampler
    if data.streams or isinstance(sampler, (RandomSampler, WeightedRandomSampler)) or not hasattr(sampler, "__len__"):
        return rows
    return min(rows, len(sampler))  # type: ignore[arg-type]


def _num_batches(loader: DataLoader[Any], num_data: int, batch_size: int) -> int:
    try:
        return max(1, len(loader))
    except TypeError:  # of a stream
        return math.ceil(num_data / batch_size)


def _checksum(feed: Feed) -> int:
    data = feed.at_hand
    types = [str(part.dtype) for part in inputs.parts(data.x)]
    shown = (feed.num_data, feed.num_batches, data.task, data.num_classes, types)
    return zlib.crc32(repr(shown).encode())
