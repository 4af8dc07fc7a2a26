"""Index batches that a run can leave and take up again in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from posterity.core.errors import CorruptFileError, UsageError


class Batches:
    """Shuffled index batches, resumable in the middle of an epoch.

    An epoch's order is one `randperm` drawn from `generator` when its first batch is asked for.
    Leaving a loop over the batches early and looping again goes on where the first loop stopped; an
    epoch ends when a loop runs to its end, which for a state taken after the last batch is at once.
    """

    def __init__(
        self,
        num_data: int,
        batch_size: int,
        generator: torch.Generator,
        *,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None:
        if num_data < 1:
            raise UsageError(f"num_data is {num_data}; expected at least one row.")
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}; expected at least 1.")
        if drop_last and batch_size > num_data:
            raise UsageError(
                f"batch_size {batch_size} exceeds the {num_data} rows, so that drop_last leaves no batch; "
                "give a smaller batch_size or drop_last=False."
            )
        self.num_data = num_data
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.epoch = 0
        self.position = 0
        self._generator = generator
        self._start = generator.get_state()
        self._order: Tensor | None = None

    @property
    def num_batches(self) -> int:
        """Batches in an epoch, M."""
        whole, rest = divmod(self.num_data, self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[Tensor]:
        """The rest of the current epoch."""
        while self.position < self.num_batches:
            order = self._draw()
            begin = self.position * self.batch_size
            self.position += 1
            yield order[begin : begin + self.batch_size]
        self.epoch += 1
        self.position = 0
        self._order = None

    def state(self) -> dict[str, Any]:
        """All that is needed to go on exactly here: tensors, integers and booleans."""
        current = self._generator.get_state()
        return {
            "epoch": self.epoch,
            "position": self.position,
            "epoch_start": current if self._order is None else self._start,
            "generator": current,
            **self._shape(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; the generator, too, is put back to where it was."""
        missing = ({"epoch", "position", "epoch_start", "generator"} | self._shape().keys()) - state.keys()
        if missing:
            raise CorruptFileError(f"the state of the batches lacks {', '.join(sorted(missing))}.")
        for name, value in self._shape().items():
            if state[name] != value:
                raise UsageError(
                    f"cannot resume: the state was taken with {name} {state[name]}, now it is {value}; "
                    "resume with the same data and settings."
                )
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self._order = None
        self._generator.set_state(state["epoch_start"])
        if self.position:
            self._draw()
            # Another user of a shared generator may have drawn from it since the epoch began.
            self._generator.set_state(state["generator"])

    def _draw(self) -> Tensor:
        if self._order is None:
            self._start = self._generator.get_state()
            device = self._generator.device
            if self.shuffle:
                self._order = torch.randperm(self.num_data, generator=self._generator, device=device)
            else:
                self._order = torch.arange(self.num_data, device=device)
        return self._order

    def _shape(self) -> dict[str, int | bool]:
        return {
            "num_data": self.num_data,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "shuffle": self.shuffle,
        }
