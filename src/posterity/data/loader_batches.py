"""The batches of a DataLoader, which a training can leave and take up again.

A state has the states of the loader's generators, and of PyTorch's global one, from where its iteration began, and how
many batches were taken since: to resume, these are set and as many batches are passed over (data.loading says when that
is exact). An epoch has `num_batches`; a loader that ends before begins anew, and a stream goes on in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.data.dataset import Batch


class LoaderBatches:
    """Batches of a loader, resumable as far as its randomness can be captured, see the header."""

    def __init__(
        self,
        loader: DataLoader[Any],
        read: Callable[[Any], Batch],
        *,
        num_data: int,
        num_batches: int,
        streams: bool,
    ) -> None:
        self._loader, self._read, self._streams = loader, read, streams
        self._shape = {"num_data": num_data, "num_batches": num_batches}
        self.num_batches = num_batches
        self.epoch, self.position = 0, 0
        self._iterator: Iterator[Any] | None = None
        self._taken = 0  # since the iterator began
        self._start: list[Tensor] = []

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch."""
        while self.position < self.num_batches:
            raw = self._next()
            self.position += 1
            yield self._read(raw)
        self.epoch, self.position = self.epoch + 1, 0
        if not self._streams:
            self._end()

    def _next(self) -> Any:
        while True:
            if self._iterator is None:
                self._begin()
                assert self._iterator is not None
            try:
                raw = next(self._iterator)
            except StopIteration:
                empty = not self._taken
                self._end()
                if empty:
                    raise DataError("the loader gives no more batches: it must begin anew with each iter()") from None
                continue
            self._taken += 1
            return raw

    def _begin(self) -> None:
        self._start = [torch.get_rng_state(), *(one.get_state() for one in generators_of(self._loader))]
        self._iterator = iter(self._loader)

    def _end(self) -> None:
        self._iterator, self._taken, self._start = None, 0, []

    def state(self) -> dict[str, Any]:
        """Place, and the generators' states: now, and when the iteration began."""
        now = [one.get_state() for one in generators_of(self._loader)]
        return {
            "epoch": self.epoch,
            "position": self.position,
            "taken": self._taken,
            "start": self._start,
            "generators": now,
            **self._shape,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, by passing over what was taken; moves PyTorch's global generator."""
        missing = ({"epoch", "position", "taken", "start", "generators"} | self._shape.keys()) - state.keys()
        if missing:
            raise CorruptFileError(f"the state of the batches lacks {', '.join(sorted(missing))}.")
        own = generators_of(self._loader)
        for name, ours, theirs in (
            *((name, value, state[name]) for name, value in self._shape.items()),
            ("generators", len(own), len(state["generators"])),
        ):
            if ours != theirs:
                raise UsageError(f"cannot resume: the loader had {name} {theirs}, now {ours}; give the same loader.")
        self._end()
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        if state["taken"]:
            torch.set_rng_state(state["start"][0])
            for one, kept in zip(own, state["start"][1:], strict=True):
                one.set_state(kept)
            for _ in range(int(state["taken"])):
                self._next()
        for one, kept in zip(own, state["generators"], strict=True):
            one.set_state(kept)


def generators_of(loader: DataLoader[Any]) -> list[torch.Generator]:
    """Those that a loader and its samplers show."""
    owners = (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    found = (getattr(owner, "generator", None) for owner in owners)
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
