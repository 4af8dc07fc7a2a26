"""Real processes, killed with real signals; what they left is resumed and ends in the same bytes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posterity.training import Checkpoints

WORKER = Path(__file__).with_name("kill_worker.py")
LONG = ("--dataset", "digits", "--model", "mlp", "--hidden", "16", "--epochs", "60")


def work(folder, *arguments):
    done = subprocess.run(
        [sys.executable, WORKER, folder, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_twenty_kills_at_random_moments_and_one_at_each_write(tmp_path, checkpoint_bytes, records):
    outcomes, errors = work(tmp_path, 12345, "random", 20)
    assert outcomes.count("SIGKILL") == 20
    assert {*outcomes} == {"SIGKILL", "finished"}, errors
    assert outcomes[-1] == "finished"
    outcomes, errors = work(tmp_path, 0, "points")
    assert {*outcomes} == {"SIGKILL", "finished"}, errors
    assert outcomes.count("SIGKILL") >= 20
    whole = tmp_path / "whole"
    runs = sorted(tmp_path.iterdir())
    assert len(runs) > 20
    for run in runs:
        assert checkpoint_bytes(run) == checkpoint_bytes(whole), run.name
        assert records(run / "history.jsonl") == records(whole / "history.jsonl"), run.name
        assert [r["epoch"] for r in records(run / "history.jsonl")] == [1, 2, 3, 4]
        assert (run / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
        assert json.loads((run / "summary.json").read_text())["stopped"] == "epochs"


def start(out, *options):
    program = [sys.executable, "-c", "from posterity.cli import main; main()"]
    command = [*program, "train", *LONG, "--quiet", "--out", str(out), *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(process, condition):
    limit = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The undisturbed run, begun in a process of its own, and the time it took."""
    out = tmp_path_factory.mktemp("whole") / "run"
    process = start(out, "--json")
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out, json.loads(printed)


def check_resumed(cli, out, whole, checkpoint_bytes, records):
    done = cli("train", "--out", out, "--resume", "--json")
    assert done.code == 0, done.err
    expected, printed = whole
    assert {**done.json, "run": ""} == {**printed, "run": ""}
    assert checkpoint_bytes(out) == checkpoint_bytes(expected)
    assert records(out / "history.jsonl") == records(expected / "history.jsonl")


def test_sigkill_of_the_command(cli, tmp_path, whole, checkpoint_bytes, records):
    """While it lives nobody else may write there; when it is dead the lock is free."""
    out = tmp_path / "run"
    process = start(out, "--checkpoint-seconds", 0)
    try:
        wait_until(process, lambda: Checkpoints(out / "checkpoint").names()[-1:] > ["step-00000020"])
        os.kill(process.pid, signal.SIGSTOP)
        for option in ("--resume", "--overwrite"):
            refused = cli("train", "--out", out, option)
            assert refused.code == 2
            assert f"in use by another process (id {process.pid})" in refused.err
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    check_resumed(cli, out, whole, checkpoint_bytes, records)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_the_run_in_good_order(cli, tmp_path, whole, checkpoint_bytes, records, newest, number, code):
    out = tmp_path / "run"
    process = start(out, "--checkpoint-seconds", 1000, "--json")
    try:
        wait_until(process, lambda: (out / "history.jsonl").exists())
        process.send_signal(number)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert printed == ""
    step = int(re.search(rf"stopped by {number.name} after step (\d+); continue with --resume", errors)[1])
    assert 0 < step < whole_steps(whole)
    assert newest(out)["step"] == step
    check_resumed(cli, out, whole, checkpoint_bytes, records)


def whole_steps(whole):
    return json.loads((whole[0] / "summary.json").read_text())["last"]["step"]
