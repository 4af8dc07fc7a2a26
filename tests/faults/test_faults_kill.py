"""Real processes, killed with real signals; what they left is resumed and ends in the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import Launched

from posterity.storage import Checkpoints

WORKERS = Path(__file__).parent
LONG = ("--dataset", "digits", "--model", "mlp", "--hidden", "16", "--epochs", "60")


def test_twenty_kills_at_random_moments_and_one_at_each_write(memory, checkpoint_bytes, records):
    done = subprocess.run(
        [sys.executable, WORKERS / "kill_worker.py", memory, "12345", "20"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    for found in outcomes.values():
        assert {*found} == {"SIGKILL", "finished"}, done.stderr
        assert found[-1] == "finished"
    assert outcomes["random"].count("SIGKILL") == 20
    assert outcomes["points"].count("SIGKILL") >= 20
    assert outcomes["longer"].count("SIGKILL") == 10
    runs = {kind: sorted(memory.glob(f"{kind}*")) for kind in ("random", "point", "prolonged")}
    assert len(runs["point"]) > 20
    assert len(runs["prolonged"]) == 11
    for kind, found in runs.items():
        # A finished run with patience is prolonged from its best weights, and so does not end as one at once.
        whole = memory / ("prolonged" if kind == "prolonged" else "whole")
        for run in found:
            assert checkpoint_bytes(run) == checkpoint_bytes(whole), run.name
            assert records(run / "history.jsonl") == records(whole / "history.jsonl"), run.name
            assert [r["epoch"] for r in records(run / "history.jsonl")] == [1, 2, 3, 4]
            assert len((run / "history.csv").read_text().splitlines()) == 5
            assert (run / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
            summaries = [json.loads((folder / "summary.json").read_text()) for folder in (run, whole)]
            assert summaries[0]["stopped"] == "epochs"
            assert summaries[0]["evaluation"] == summaries[1]["evaluation"]


class Process(Launched):
    """A command that runs in a process of its own."""

    def __init__(self, worker, folder, arguments):
        printed, errors = folder / "printed", folder / "errors"
        request = {"start": [*map(str, arguments)], "printed": str(printed), "errors": str(errors)}
        super().__init__(worker, request, printed, errors)

    def send(self, number):
        if self.code is None:  # nobody has waited for it, so that the id cannot be another's
            os.kill(self.pid, number)


@pytest.fixture(scope="module")
def worker():
    command = [sys.executable, WORKERS / "command_worker.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def start(worker, tmp_path):
    """`posterity train` in a process of its own, which is killed if it outlives the test."""
    begun = []

    def run(out, *options):
        begun.append(Process(worker, tmp_path, ["train", "--quiet", "--out", out, *options]))
        return begun[-1]

    yield run
    for process in begun:
        process.send(signal.SIGKILL)
        assert process.finish() is not None


def lines(out):
    file = out / "history.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def signalled(process, out, number, code):
    """The step after which a run ends in good order on a signal, soon after its next epoch."""
    before = lines(out)
    process.wait_until(lambda: lines(out) > before)
    process.send(number)
    assert process.finish() == code
    printed, errors = process.read()
    assert printed == ""
    return int(re.search(rf"stopped by {number.name} after step (\d+); continue with --resume", errors)[1])


def test_signals_end_a_run_in_good_order_and_a_kill_leaves_it_whole(
    cli, start, tmp_path, checkpoint_bytes, records, newest
):
    """One run: SIGTERM, resumed and SIGINT, resumed and SIGKILL, resumed to its end."""
    whole = cli("train", *LONG, "--quiet", "--out", "whole", "--json")
    assert whole.code == 0, whole.err
    total = json.loads((tmp_path / "whole" / "summary.json").read_text())["last"]["step"]
    out = tmp_path / "run"
    rarely = ("--checkpoint-seconds", 1000, "--json")
    first = signalled(start(out, *LONG, *rarely), out, signal.SIGTERM, 143)
    assert newest(out)["step"] == first
    second = signalled(start(out, "--resume", *rarely), out, signal.SIGINT, 130)
    assert newest(out)["step"] == second
    assert 0 < first < second < total
    assert len((out / "history.csv").read_text().splitlines()) == 1 + lines(out)
    killed_while_it_holds_the_lock(cli, start(out, "--resume", "--checkpoint-seconds", 0), out, second + 20)
    assert not (out / "history.csv").exists()
    done = cli("train", "--out", out, "--resume", "--json")
    assert done.code == 0, done.err
    assert {**done.json, "run": ""} == {**whole.json, "run": ""}
    assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")
    assert records(out / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


def killed_while_it_holds_the_lock(cli, process, out, step):
    """While it lives nobody else may write there; when it is dead the lock is free."""
    process.wait_until(lambda: Checkpoints(out / "checkpoint").names()[-1:] > [f"step-{step:08d}"])
    process.send(signal.SIGSTOP)
    for option in ("--resume", "--overwrite"):
        refused = cli("train", "--out", out, option)
        assert refused.code == 2
        assert f"in use by another process (id {process.pid})" in refused.err
    process.send(signal.SIGKILL)
    assert process.finish() == -signal.SIGKILL


def test_a_run_whose_directory_another_process_has_made_anew_leaves_it_alone(train, start, tmp_path):
    out = tmp_path / "run"
    process = start(out, *LONG, "--checkpoint-seconds", 1000)
    process.wait_until(lambda: lines(out) > 0)
    process.send(signal.SIGSTOP)
    shutil.rmtree(out)
    assert train(out, "--seed", 3).code == 0
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    process.send(signal.SIGCONT)
    assert process.finish() == 1
    printed, errors = process.read()
    assert printed == ""
    assert re.fullmatch(r"error: .*run is no longer this run's: .*; nothing more is written there\n", errors)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files
