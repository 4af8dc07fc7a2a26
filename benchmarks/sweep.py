"""A sweep's throughput, and what kills do to it.

throughput   40 short LeNet-5 runs: one after the other by `execute` in one process with all threads, beside `posterity
             sweep` with a worker a core; both from the process's start to its end, imports and all. Beside it, what a
             run costs before its first step (data, network, plan, folder) after a worker's first run, and what the
             study's storage costs a run.
kills        500 short runs by 3 workers, of which 20 are killed with SIGKILL at random moments, against the same sweep
             undisturbed: nothing lost, nothing twice, the same numbers.

    python benchmarks/sweep.py --out docs/benchmarks
    python benchmarks/sweep.py kills --items 500 --kills 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from posterity.experiments import Results, Run, execute
from posterity.experiments.database import storage_url
from posterity.experiments.kept_data import keep_data
from posterity.experiments.lease import ITEM, Leases, Outcome
from posterity.experiments.row import FINISHED
from posterity.experiments.study import Study
from posterity.training import Callback, Training
from runs import publish

LENET = {"dataset": "digits", "model": "lenet5"}
MOONS = {"dataset": "two-moons", "model": "mlp", "hidden": [4], "train_rows": 100, "epochs": 2, "val_fraction": 0.2}
ONE_AFTER_THE_OTHER = """
import sys
from pathlib import Path
from posterity.experiments import execute
from posterity.experiments.study import Study
for item in Study.of(sys.argv[1]).items.values():
    execute(item.run, Path(sys.argv[1]) / item.key)
"""
CLOCK = "train_seconds"
LIMIT = 3600.0  # seconds for a sweep


class Started(Callback):
    """Notes when the training begins."""

    kept = False
    at = 0.0

    def on_start(self, training: Training) -> None:
        self.at = time.monotonic()


def throughput(folder: Path, items: int, workers: int, epochs: int) -> dict[str, Any]:
    """Seconds of the runs one after the other and of the sweep, and what is not training in them."""
    study = Study.of({"name": "lenet", "run": {**LENET, "epochs": epochs}, "seeds": items})
    (folder / "one").mkdir(parents=True)
    study.write(folder / "one" / "study.toml")
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", ONE_AFTER_THE_OTHER, str(folder / "one")], check=True, timeout=LIMIT)
    one = time.monotonic() - began
    began = time.monotonic()
    with sweep_command(study, folder / "sweep", workers) as process:
        assert process.wait(LIMIT) == 0
    several = time.monotonic() - began
    same = [row.metrics["nll"] for row in Results.read(folder / "sweep")]
    return {
        "items": items,
        "epochs": epochs,
        "workers": workers,
        "threads": torch.get_num_threads(),
        "one after the other": one,
        "sweep": several,
        "ratio": several / one,
        "finished": len(same),
        "start-up, digits": start_up(folder / "digits", Run.of(**LENET), 6),
        "storage": storage_cost(folder / "storage", 40),
    }


def start_up(folder: Path, run: Run, count: int) -> float:
    """Median seconds before the first step of a run, after the first run."""
    found = []
    with keep_data():
        for seed in range(count):
            started, began = Started(), time.monotonic()
            execute(run.model_copy(update={"seed": seed, "epochs": 1}), folder / str(seed), callbacks=[started])
            found.append(started.at - began)
    return statistics.median(found[1:])


def storage_cost(folder: Path, count: int) -> float:
    """Median seconds for taking an item and telling what came of it."""
    study = Study.of({"function": "quadratic_descent", "axes": {"lr": {"uniform": [0.1, 1.0]}}, "count": count})
    folder.mkdir(parents=True)
    leases, found = Leases(study, storage_url(None, folder)), []
    for _ in range(count):
        began = time.monotonic()
        lease = leases.take()
        assert lease is not None
        leases.tell(lease, Outcome(FINISHED, {}))
        found.append(time.monotonic() - began)
    leases.close()
    return statistics.median(found)


def kills(folder: Path, items: int, count: int, workers: int = 3) -> dict[str, Any]:
    """A sweep whose workers are killed `count` times, against one that nobody disturbs."""
    study = Study.of({"name": "moons", "run": MOONS, "seeds": items, "samples": 2})
    began = time.monotonic()
    with sweep_command(study, folder / "undisturbed", workers) as process:
        assert process.wait(LIMIT) == 0
    undisturbed = time.monotonic() - began
    out, choose, killed = folder / "killed", random.Random(0), 0
    began = time.monotonic()
    with sweep_command(study, out, workers) as process:
        while process.poll() is None and time.monotonic() - began < LIMIT:
            time.sleep(0.05)
            due = killed < count and len([*out.glob("items/*")]) >= (killed + choose.random()) * items / (count + 1)
            victims = [worker for pool in children(process.pid) for worker in children(pool)] if due else []
            if victims:
                os.kill(choose.choice(victims), signal.SIGKILL)
                killed += 1
        code = process.wait(LIMIT)
    before, after = Results.read(folder / "undisturbed"), Results.read(out)
    told = [t.user_attrs[ITEM] for t in trials(study, out) if t.state.name == "COMPLETE"]
    lost = [t for t in trials(study, out) if t.state.name == "FAIL"]
    return {
        "items": items,
        "workers": workers,
        "killed": killed,
        "exit code": code,
        "finished": len(after.finished),
        "recorded": len(told),
        "recorded twice": len(told) - len(set(told)),
        "items that were taken up again": len(lost),
        "different numbers": sum(numbers(a) != numbers(b) for a, b in zip(before, after, strict=True)),
        "seconds undisturbed": undisturbed,
        "seconds": time.monotonic() - began,
    }


def numbers(row: Any) -> dict[str, float]:
    return {name: value for name, value in row.metrics.items() if name != CLOCK}


def trials(study: Study, out: Path) -> list[Any]:
    leases = Leases(study, storage_url(None, out))
    found = leases.trials()
    leases.close()
    return found


@contextmanager
def sweep_command(study: Study, out: Path, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """`posterity sweep` in a process of its own, which does not outlive this."""
    out.mkdir(parents=True)
    study.write(out / "study.toml")
    command = [sys.executable, "-m", "posterity", "sweep", "run", str(out), "--out", str(out), "--quiet"]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def children(process: int) -> list[int]:
    """The processes that it has started and that live."""
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def table(found: dict[str, dict[str, Any]]) -> str:
    """A line a number."""
    rows = [(part, name, value) for part, values in found.items() for name, value in values.items()]
    lines = [f"| {p} | {n} | {v:.3g} |" if isinstance(v, float) else f"| {p} | {n} | {v} |" for p, n, v in rows]
    return "\n".join(["|  |  |  |", "|---|---|---:|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["throughput", "kills"], help="throughput, kills; both by default")
    parser.add_argument("--runs", type=int, default=40, help="LeNet-5 runs of the throughput")
    parser.add_argument("--epochs", type=int, default=25, help="their epochs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="workers of the throughput")
    parser.add_argument("--items", type=int, default=500, help="runs of the sweep that is killed")
    parser.add_argument("--kills", type=int, default=20, help="kills")
    parser.add_argument("--out", type=Path, help="folder for the table")
    args = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "throughput" in args.parts:
            found["throughput"] = throughput(Path(folder) / "throughput", args.runs, args.workers, args.epochs)
        if "kills" in args.parts:
            found["kills"] = kills(Path(folder) / "kills", args.items, args.kills)
    publish("sweep", __doc__ or "", table(found), found, args.out)


if __name__ == "__main__":
    main()
