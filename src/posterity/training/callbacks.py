"""Hooks into the loop. A callback may look at everything, and stop the training with `training.stop(reason)`.

Of several processes (training.distributed) all have the callbacks whose state is kept, and must decide alike, by what
they are given; those whose state is not are the first's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from posterity.objectives import Loss
from posterity.storage import EpochRecord

if TYPE_CHECKING:
    from posterity.training.loop import Training


class Callback:
    """Does nothing at each of the loop's moments; override what you need."""

    kept: ClassVar[bool] = True  # whether a checkpoint keeps its state; a mere display may come and go

    def on_start(self, training: Training) -> None:
        """Before the first step (of a new or a resumed training)."""

    def on_step(self, training: Training, loss: Loss) -> None:
        """After the gradient is known and before the optimiser's step."""

    def on_step_end(self, training: Training) -> None:
        """After the optimiser's step."""

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """After an epoch, with its record, which is then written to the history."""

    def on_end(self, training: Training) -> None:
        """After the last step."""

    def of_member(self, number: int) -> Callback:
        """The callback for an ensemble's member, from 1: itself, unless it must keep their trainings apart."""
        return self

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of it (tensors, numbers, strings, in dicts and lists)."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
