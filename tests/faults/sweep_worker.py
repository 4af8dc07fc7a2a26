"""Run by test_faults_sweep.py: imports once, then forks workers of a sweep, which are killed with SIGKILL.

    python sweep_worker.py STUDY OUT STORAGE SEED KILLS

Three at a time. One is killed shortly after a few more items were begun, and replaced, until so many were; the rest
comes to its end. Prints what became of each as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import optuna
import torch

from posterity.experiments.lease import Leases
from posterity.experiments.sweep import prepare
from posterity.experiments.worker import work

FAILED = 77
WORKERS = 3


def child(study: str, out: Path, storage: str | None) -> int:
    identity = os.fork()
    if identity:
        return identity
    try:
        chosen, place, url = prepare(study, out=out, storage=storage)
        work(chosen, place, Leases(chosen, url), checkpoint_seconds=0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(FAILED)
    os._exit(0)


def finish(identity: int) -> str:
    _, status = os.waitpid(identity, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "finished", FAILED: "failed"}.get(os.WEXITSTATUS(status), "strange")


def main(study: str, out: Path, storage: str | None, seed: int, kills: int) -> list[str]:
    choose = random.Random(seed)
    living = [child(study, out, storage) for _ in range(WORKERS)]
    outcomes, begun = [], 0
    while outcomes.count("SIGKILL") < kills:
        begun += choose.randint(1, 5)
        limit = time.monotonic() + 60
        while len([*out.glob("items/*")]) < begun and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(choose.uniform(0, 0.1))
        victim = living.pop(choose.randrange(WORKERS))
        os.kill(victim, signal.SIGKILL)  # not yet waited for, so that the id cannot be another's
        outcomes.append(finish(victim))
        living.append(child(study, out, storage))
    return outcomes + [finish(identity) for identity in living]


if __name__ == "__main__":
    torch.optim.Adam([torch.zeros(1)])  # imports that every child would do anew
    optuna.storages.RDBStorage("sqlite://")
    given = sys.argv[1:]
    print(json.dumps(main(given[0], Path(given[1]), given[2] or None, int(given[3]), int(given[4]))))
