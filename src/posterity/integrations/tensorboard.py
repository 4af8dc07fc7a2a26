"""TensorBoard: the numbers of every epoch's record, under the names that history.csv has for them.

    posterity train ... --tensorboard                     # in the run's folder, tensorboard/
    pt.fit(net, data, callbacks=[pt.TensorBoard(folder)])
    tensorboard --logdir runs

Needs the extra [tensorboard]. A number's step is the training's, not the epoch: runs with other batches compare. What a
resumed training does again replaces what it had written for these steps (`purge_step`).
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from posterity.core.errors import UsageError
from posterity.storage import EpochRecord, flat
from posterity.training import Callback, Training

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

PLACES = ("epoch", "step", "seconds")  # of a record, which are not drawn against the step


class TensorBoard(Callback):
    """Writes event files into `folder`; of an ensemble each member's into a folder of its own there."""

    kept = False

    def __init__(self, folder: str | Path) -> None:
        if find_spec("tensorboard") is None:
            raise UsageError("TensorBoard is not installed; install it with: pip install 'posterity[tensorboard]'")
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def on_start(self, training: Training) -> None:
        """Open a file, unless there is nothing left to train."""
        if not training.stopped:
            from torch.utils.tensorboard import SummaryWriter  # a second's import, for those who ask for it

            self._writer = SummaryWriter(self.folder, purge_step=training.step + 1)

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """Its numbers."""
        assert self._writer is not None
        for name, value in flat(record).items():
            if name not in PLACES and isinstance(value, (int, float)) and math.isfinite(value):
                self._writer.add_scalar(name.replace(".", "/", 1), value, record["step"])
        self._writer.flush()

    def on_end(self, training: Training) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def of_member(self, number: int) -> TensorBoard:
        """Its own, in member-1 and so on."""
        return TensorBoard(self.folder / f"member-{number}")
