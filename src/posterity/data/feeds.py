"""Where a training takes its batches from, and what of its data it has at hand.

    feed.at_hand    rows in memory: all of them, or a sample where the data come batch by batch (data.loading)
    feed.num_data   p, the rows that are trained on: the KL is divided by it
    feed.batches()  M of them an epoch, which can be left and taken up again

What needs data beside the batches (the kind of the targets, a noise's first value, statistics of batch norms, the last
look at noise and spread) looks at what is at hand.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from posterity.core import inputs
from posterity.data.batches import Batches
from posterity.data.dataset import Batch, Dataset


class FedBatches(Protocol):
    """The batches of a training."""

    @property
    def epoch(self) -> int:
        """Finished epochs."""

    @property
    def position(self) -> int:
        """Batches of the current epoch that were given."""

    @property
    def num_batches(self) -> int:
        """Batches in an epoch, M."""

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch."""

    def state(self) -> dict[str, Any]:
        """All that is needed to go on here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken."""


class Feed(ABC):
    """What a training is fed from, see the header."""

    at_hand: Dataset
    num_data: int
    batch_size: int  # rows in a batch, but perhaps the last
    num_batches: int  # in an epoch, M

    @property
    @abstractmethod
    def checksum(self) -> int:
        """CRC-32 of what a resumed training must find again."""

    @abstractmethod
    def batches(self, generator: torch.Generator) -> FedBatches:
        """Those of a training whose order, where it is ours to choose, comes from `generator`."""


class RowBatches:
    """Shuffled rows, fetched a batch at a time; resumable in the middle of an epoch (data.batches)."""

    def __init__(self, order: Batches, fetch: Callable[[Tensor], Batch]) -> None:
        self._order, self._fetch = order, fetch

    @property
    def epoch(self) -> int:
        """Finished epochs."""
        return self._order.epoch

    @property
    def position(self) -> int:
        """Batches of the current epoch that were given."""
        return self._order.position

    @property
    def num_batches(self) -> int:
        """Batches in an epoch, M."""
        return self._order.num_batches

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch."""
        return map(self._fetch, self._order)

    def state(self) -> dict[str, Any]:
        """That of the order."""
        return self._order.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken."""
        self._order.restore(state)


class MemoryFeed(Feed):
    """A Dataset in memory: a batch is one `index_select`.

    Rows that are weighted count as the sum of their weights, and are given with weights of mean 1: with c the KL's
    factor, sum_n w_n nll_n + c KL is divided by sum_n w_n, as if each row were there w_n times.
    """

    def __init__(self, data: Dataset, batch_size: int) -> None:
        rows = self.num_data = len(data)
        if data.weight is not None:
            total = data.weight.double().sum().item()
            self.num_data = max(1, round(total))
            data = replace(data, weight=data.weight * (rows / total))
        self.at_hand, self._rows = data, rows
        self.batch_size = min(batch_size, rows)
        self.num_batches = -(-rows // self.batch_size)

    @property
    def checksum(self) -> int:
        """Of all values."""
        return checksum_of(self.at_hand)

    def batches(self, generator: torch.Generator) -> RowBatches:
        """In an order from `generator`."""
        return RowBatches(Batches(self._rows, self.batch_size, generator), self.at_hand.rows)


def checksum_of(data: Dataset, value: int = 0) -> int:
    """CRC-32 of all values of `data`, going on from `value`."""
    for tensor in (*inputs.parts(data.x), data.y, *([] if data.weight is None else [data.weight])):
        raw: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        value = zlib.crc32(raw, value)
    return value
