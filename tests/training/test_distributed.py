"""Two and three processes train what one does: same batches, same draws, to rounding; they stop and go on together.

The processes are real, forked by torchrun's own agent from one that has imported posterity (spread_worker.py); the
command `torchrun` itself is run by tests/docs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from launched import Launched
from spread_worker import fit_case, outcome

from posterity.experiments import Record, Run, execute
from posterity.training import Ranks

# 21 rows in batches of 10: the last has one, so that of two processes one has no rows, of three two have none.
SAME = {
    "mean_field": {"network": {}},
    "low_rank": {"network": {"posterior": "low_rank", "rank": 3}},
    "point": {"network": {"posterior": "point"}},
    "tied": {"network": {"posterior": "tied"}, "rows": 22},
    "learnt noise": {"network": {"outputs": 1}, "rows": 23},
    "deterministic weights": {"network": {"select": ["1.*"]}, "settings": {"optimizer": "adam", "clip": 0.5}},
    "sampled KL": {"network": {"prior": "kaiming"}, "settings": {"gradient": "path", "samples": 3}},
    "score": {"network": {}, "settings": {"gradient": "score", "baseline": "moving", "samples": 2, "lr": 0.01}},
    "weighted KL": {"network": {}, "settings": {"kl_decay": 0.5, "temperature": 1.0, "optimizer": "adabayes"}},
    "learnt prior": {"network": {}, "settings": {"learn_prior": True, "schedule": "plateau"}},
    "augmentation": {"network": {}, "settings": {"augmentation": "flip"}},
    "average": {"network": {}, "settings": {"average": "hwa", "average_every": 2, "average_restart": True}},
    "patience": {"network": {}, "settings": {"patience": 1, "epochs": 8, "optimizer": "sgd", "lr": 3.0}},
    "ivon": {"network": {}, "settings": {"optimizer": "ivon"}},
    "sgld": {"network": {"posterior": "point"}, "settings": {"optimizer": "sgld", "average_every": 1}},
    # Noise of each process's own, of next to no spread.
    "local": {"network": {"rho": -20.0}, "settings": {"estimator": "local", "rank_noise": "own", "lr_sd": 1e-9}},
    "flipout": {"network": {"rho": -20.0}, "settings": {"estimator": "flipout", "rank_noise": "own", "lr_sd": 1e-9}},
}
OTHER = {
    "own": {"network": {}, "settings": {"rank_noise": "own"}},
    "dropout": {"network": {"dropout": True}},
}
FAILING = {
    "norm": ({"network": {"norm": True}}, r"BatchNorm1d \(2\) takes statistics of a batch"),
    "rows": ({"network": {}, "settings": {"estimator": "local"}}, "draws noise for each row.*give rank_noise 'own'"),
    "overflow": (
        {"network": {}, "trapped": 5},
        r"step [12]: the gradient of 1.weight.* is not finite.*The step was not taken",
    ),
}
WHOLE = {**SAME, **OTHER, **{name: case for name, (case, _) in FAILING.items()}}


class Launch(Launched):
    """Processes that torchrun's agent has started."""

    def __init__(self, worker, errors, name, *given, processes, restarts=0):
        request = {"start": name, "given": [*map(str, given)], "processes": processes, "restarts": restarts}
        super().__init__(worker, {**request, "errors": str(errors)}, errors)

    @property
    def said(self):
        return self.read()[0]


@pytest.fixture(scope="module")
def worker():
    command = [sys.executable, Path(__file__).with_name("spread_worker.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="module")
def found(worker, tmp_path_factory):
    """What came of every case, by the number of processes and the rank."""
    folder = tmp_path_factory.mktemp("cases")
    (folder / "cases.json").write_text(json.dumps(WHOLE))
    begun = {
        n: Launch(worker, folder / f"errors-{n}", "cases", folder / "cases.json", folder, processes=n) for n in (2, 3)
    }
    for launch in begun.values():
        assert launch.finish() == 0, launch.said
    return {n: [torch.load(folder / f"{n}-{rank}.pt") for rank in range(n)] for n in begun}


def close(a, b):
    """Whether two nested results agree to rounding; words are compared without their numbers."""
    if isinstance(a, torch.Tensor):
        return torch.allclose(a, b, rtol=1e-3, atol=1e-5)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, str):
        return re.sub(r"[-\d.e]+", "", a) == re.sub(r"[-\d.e]+", "", b)
    return a == pytest.approx(b, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", SAME)
def test_processes_train_what_one_does(found, name, same):
    one = outcome(fit_case(SAME[name]))
    for results in found.values():
        for result in results:
            assert close(result[name], one), name
            assert same(result[name], results[0][name])


@pytest.mark.parametrize("name", OTHER)
def test_noise_of_their_own_gives_another_training_that_is_the_same_in_all_processes(found, name, same):
    one = outcome(fit_case(OTHER[name]))
    ends = [one["net"]["posterior.mean"], *(results[0][name]["net"]["posterior.mean"] for results in found.values())]
    assert len({tuple(end.tolist()) for end in ends}) == 3
    assert all(same(result[name], results[0][name]) for results in found.values() for result in results)


@pytest.mark.parametrize("name", FAILING)
def test_what_cannot_be_split_is_refused_and_what_is_not_finite_in_one_stops_all(found, name):
    for results in found.values():
        said = {result[name]["refused"] for result in results}
        assert len(said) == 1
        assert re.search(FAILING[name][1], said.pop())


def test_every_row_has_one_rank():
    for size in (1, 2, 3, 7):
        for rows in range(12):
            parts = [Ranks(rank, size).part(rows) for rank in range(size)]
            assert [row for part in parts for row in range(*part)] == list(range(rows))
            assert max(end - begin for begin, end in parts) <= -(-rows // size)


LONG = ("--train-rows", 110, "--batch-size", 25, "--epochs", 40, "--hidden", 8, "--model", "mlp", "--val-fraction", 0.1)


@pytest.fixture
def start(worker, tmp_path):
    """`posterity train` in several processes, which are ended if they outlive the test."""
    begun = []

    def run(out, *options, processes, restarts=0):
        given = ("train", "--quiet", "--out", out, *options)
        begun.append(Launch(worker, tmp_path / "errors", "command", *given, processes=processes, restarts=restarts))
        return begun[-1]

    yield run
    assert all(launch.finish() is not None for launch in begun)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The record of the long run in one process."""
    run = Run(train_rows=110, batch_size=25, epochs=40, hidden=(8,), model="mlp", val_fraction=0.1)
    return execute(run, tmp_path_factory.mktemp("whole") / "run")


def steps(out):
    return [int(path.name.split("-")[1]) for path in (out / "checkpoint").glob("step-*")]


def epochs(out):
    return len((out / "history.jsonl").read_text().splitlines()) if (out / "history.jsonl").exists() else 0


def process(out, rank, restart=0):
    return int((out.parent / f"{out.name}-{restart}-{rank}.pid").read_text())


def check_same_run(folder, whole):
    record = Record.read(folder)
    assert record.finished
    assert record.run.key == whole.run.key
    assert [r["step"] for r in record.history] == [r["step"] for r in whole.history]
    for ours, theirs in zip(record.history, whole.history, strict=True):
        assert close([ours["nll"], ours["kl"], ours["val_nll"]], [theirs["nll"], theirs["kl"], theirs["val_nll"]])
    assert close(record.test, whole.test)


def test_a_signal_to_one_process_stops_all_and_the_run_goes_on_in_another_number(cli, start, whole, tmp_path):
    out = tmp_path / "run"
    launch = start(out, *LONG, "--checkpoint-seconds", 1000, processes=3)
    launch.wait_until(lambda: epochs(out))
    os.kill(process(out, 1), signal.SIGTERM)
    assert launch.finish() == 143
    (stopped,) = re.findall(r"stopped by SIGTERM after step (\d+); continue with --resume", launch.said)
    assert max(steps(out)) == int(stopped)
    assert not Record.read(out).finished
    launch = start(out, "--resume", "--checkpoint-seconds", 1000, processes=2)
    before = epochs(out)
    launch.wait_until(lambda: epochs(out) > before)
    os.kill(process(out, 0), signal.SIGINT)
    assert launch.finish() == 130
    done = cli("train", "--out", out, "--resume", "--quiet")
    assert done.code == 0, done.err
    check_same_run(out, whole)


def test_a_killed_process_is_started_anew_with_the_others_and_the_run_goes_on(start, whole, tmp_path):
    out = tmp_path / "run"
    launch = start(out, *LONG, "--checkpoint-seconds", 0.1, processes=2, restarts=1)
    launch.wait_until(lambda: max(steps(out), default=0) > 0)
    os.kill(process(out, 1), signal.SIGKILL)
    assert launch.finish() == 0, launch.said
    assert process(out, 0, restart=1) != process(out, 0)
    assert "another process of this training was lost" in launch.said
    check_same_run(out, whole)
    files = {path: path.read_bytes() for path in out.rglob("*.json*")}
    again = start(out, "--resume", processes=2)  # there is nothing left to do, which all are told
    assert again.finish() == 0, again.said
    assert {path: path.read_bytes() for path in out.rglob("*.json*")} == files


def test_a_run_that_diverges_ends_in_all_processes_with_one_message(start, tmp_path):
    out = tmp_path / "run"
    launch = start(out, *LONG, "--optimizer", "sgd", "--lr", 1e30, processes=2)
    assert launch.finish() == 1
    assert len(re.findall(r"error: step \d+: ", launch.said)) == 1
    assert steps(out) == [0]
