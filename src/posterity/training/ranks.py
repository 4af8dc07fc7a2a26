"""The processes that torchrun started, as one training sees them.

    torchrun --nproc-per-node 2 -m posterity train ...
    with process_group(): fit(...)                      # in a script that torchrun starts

Rank 0 leads: it alone reads and writes. Each rank has the contiguous rows [rank n / size, (rank + 1) n / size) of every
batch of n, rounded down: none twice, none left out, for any n; a rank may have none. Memory of the CPU is reduced by
gloo, that of GPUs by NCCL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from posterity.bayesian import BayesianModule
from posterity.core.errors import PosterityError, UsageError
from posterity.estimators import SAMPLE

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

SHARED, OWN = "shared", "own"
RANK_NOISES = (SHARED, OWN)
PAUSE = 0.01  # seconds between answers
Value = TypeVar("Value")


class LostError(PosterityError):
    """Another process of the training has ended before its time."""


class Ranks:
    """This process among all of a training's."""

    def __init__(self, rank: int, size: int, *, restarted: bool = False) -> None:
        self.rank, self.size = rank, size
        self.restarted = restarted  # whether torchrun has started all of them anew

    @property
    def leads(self) -> bool:
        """Whether it is this one that reads and writes."""
        return self.rank == 0

    def part(self, rows: int) -> tuple[int, int]:
        """Where its rows of a batch begin and end."""
        return self.rank * rows // self.size, (self.rank + 1) * rows // self.size

    def sum(self, vector: Tensor) -> None:
        """Replace `vector` by its sum over the ranks, to the same bits on all of them."""
        _met(lambda: dist.all_reduce(vector))

    def agree(self, value: Value) -> Value:
        """What rank 0 has for `value`."""
        box = [value]
        _met(lambda: dist.broadcast_object_list(box, src=0))
        return box[0]


def _met(meet: Callable[[], Any]) -> None:
    try:
        meet()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LostError(
            f"another process of this training was lost ({reason}): go on from the last checkpoint with --resume, or "
            "let torchrun do so with --max-restarts"
        ) from error


_current: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


def current_ranks() -> Ranks | None:
    """Those that a training is spread over; None outside of `process_group`, and where a process is alone."""
    return _current.get()


@contextmanager
def process_group() -> Iterator[Ranks | None]:
    """Trainings in it are spread over the processes that torchrun started; without torchrun it changes nothing."""
    if not (dist.is_available() and (dist.is_initialized() or dist.is_torchelastic_launched())):
        yield None
        return
    joined = not dist.is_initialized()
    if joined:
        from torch.distributed.rendezvous import rendezvous  # which not every build of PyTorch has

        store, rank, size = next(rendezvous("env://"))
        # Networks are trained where they lie: on the CPU also of a machine with GPUs.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=_fresh(store, rank, size), rank=rank, world_size=size)
    starts = torch.tensor(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))
    dist.all_reduce(starts, dist.ReduceOp.MAX)  # each machine counts for itself
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), restarted=bool(starts > 0))
    token = _current.set(ranks if ranks.size > 1 else None)
    try:
        yield ranks
    finally:
        _current.reset(token)
        if joined:
            dist.destroy_process_group()


def _fresh(store: Store, rank: int, size: int) -> Store:
    """`store` under a name that no earlier start of these processes has used, which rank 0 makes for all.

    torchrun keeps one store over its restarts, in which the addresses of processes that are gone are found first, and
    its count of restarts is each machine's own (pytorch/pytorch#135712). So each of the others asks by a name that is
    new, and rank 0 answers until all have understood.
    """
    from torch.distributed.distributed_c10d import PrefixStore

    own = uuid4().hex
    if rank:
        store.set(f"asks/{rank}", own)
        given = store.get(f"answer/{own}").decode()
        store.set(f"joined/{given}/{rank}", "")
        return PrefixStore(given, store)
    missing = set(range(1, size))
    while missing:
        for other in missing:
            store.set(f"answer/{store.get(f'asks/{other}').decode()}", own)
        missing = {other for other in missing if not store.check([f"joined/{own}/{other}"])}
        time.sleep(PAUSE)
    return PrefixStore(own, store)


def check_spreadable(net: BayesianModule, *, estimator: str, rank_noise: str) -> None:
    """Refuse what would be another training when its batches are split."""
    for name, module in net.model.named_modules():
        if isinstance(module, _BatchNorm) or (isinstance(module, _NormBase) and module.track_running_stats):
            raise UsageError(
                f"{type(module).__name__} ({name}) takes statistics of a batch, of which each process has a part: "
                "train in one process, or take a network with another norm (GroupNorm, LayerNorm)"
            )
    if estimator != SAMPLE and net.posterior.random and rank_noise != OWN:
        raise UsageError(
            f"estimator '{estimator}' draws noise for each row, which processes cannot share: give rank_noise '{OWN}', "
            f"or take estimator '{SAMPLE}'"
        )
