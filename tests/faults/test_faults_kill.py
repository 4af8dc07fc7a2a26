"""Real processes, killed with real signals; what they left is resumed and ends in the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from posterity.storage import Checkpoints

WORKER = Path(__file__).with_name("kill_worker.py")
LONG = ("--dataset", "digits", "--model", "mlp", "--hidden", "16", "--epochs", "60")


@pytest.fixture
def memory():
    """A folder in memory if there is one: who is killed loses what it had not written, not what it had not flushed."""
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 2**26
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)


def test_twenty_kills_at_random_moments_and_one_at_each_write(memory, checkpoint_bytes, records):
    done = subprocess.run([sys.executable, WORKER, memory, "12345", "20"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    for found in outcomes.values():
        assert {*found} == {"SIGKILL", "finished"}, done.stderr
        assert found[-1] == "finished"
    assert outcomes["random"].count("SIGKILL") == 20
    assert outcomes["points"].count("SIGKILL") >= 20
    assert outcomes["longer"].count("SIGKILL") == 9
    runs = {kind: sorted(memory.glob(f"{kind}*")) for kind in ("random", "point", "prolonged")}
    assert len(runs["point"]) > 20
    assert len(runs["prolonged"]) == 10
    for kind, found in runs.items():
        # A finished run with patience is prolonged from its best weights, and so does not end as one at once.
        whole = memory / ("prolonged" if kind == "prolonged" else "whole")
        for run in found:
            assert checkpoint_bytes(run) == checkpoint_bytes(whole), run.name
            assert records(run / "history.jsonl") == records(whole / "history.jsonl"), run.name
            assert [r["epoch"] for r in records(run / "history.jsonl")] == [1, 2, 3, 4]
            assert (run / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
            summaries = [json.loads((folder / "summary.json").read_text()) for folder in (run, whole)]
            assert summaries[0]["stopped"] == "epochs"
            assert summaries[0]["evaluation"] == summaries[1]["evaluation"]


def start(out, *options):
    program = [sys.executable, "-c", "from posterity.cli import main; main()"]
    command = [*program, "train", "--quiet", "--out", str(out), *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(process, condition):
    limit = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


def lines(out):
    file = out / "history.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def signalled(out, number, code, *options):
    """The step after which a run ended in good order on a signal, soon after its next epoch."""
    before = lines(out)
    process = start(out, *options, "--checkpoint-seconds", 1000, "--json")
    try:
        wait_until(process, lambda: lines(out) > before)
        process.send_signal(number)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, errors
    assert printed == ""
    return int(re.search(rf"stopped by {number.name} after step (\d+); continue with --resume", errors)[1])


def test_signals_end_a_run_in_good_order_and_a_kill_leaves_it_whole(cli, tmp_path, checkpoint_bytes, records, newest):
    """One run: SIGTERM, resumed and SIGINT, resumed and SIGKILL, resumed to its end."""
    whole = cli("train", *LONG, "--quiet", "--out", "whole", "--json")
    assert whole.code == 0, whole.err
    total = json.loads((tmp_path / "whole" / "summary.json").read_text())["last"]["step"]
    out = tmp_path / "run"
    first = signalled(out, signal.SIGTERM, 143, *LONG)
    assert newest(out)["step"] == first
    second = signalled(out, signal.SIGINT, 130, "--resume")
    assert newest(out)["step"] == second
    assert 0 < first < second < total
    killed_while_it_holds_the_lock(cli, out, second + 20)
    done = cli("train", "--out", out, "--resume", "--json")
    assert done.code == 0, done.err
    assert {**done.json, "run": ""} == {**whole.json, "run": ""}
    assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")
    assert records(out / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


def killed_while_it_holds_the_lock(cli, out, step):
    """While it lives nobody else may write there; when it is dead the lock is free."""
    process = start(out, "--resume", "--checkpoint-seconds", 0)
    try:
        wait_until(process, lambda: Checkpoints(out / "checkpoint").names()[-1:] > [f"step-{step:08d}"])
        os.kill(process.pid, signal.SIGSTOP)
        for option in ("--resume", "--overwrite"):
            refused = cli("train", "--out", out, option)
            assert refused.code == 2
            assert f"in use by another process (id {process.pid})" in refused.err
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_run_whose_directory_another_process_has_made_anew_leaves_it_alone(train, tmp_path):
    out = tmp_path / "run"
    process = start(out, *LONG, "--checkpoint-seconds", 1000)
    try:
        wait_until(process, lambda: lines(out) > 0)
        os.kill(process.pid, signal.SIGSTOP)
        shutil.rmtree(out)
        assert train(out, "--seed", 3).code == 0
        files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        os.kill(process.pid, signal.SIGCONT)
        printed, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, printed) == (1, "")
    assert re.fullmatch(r"error: .*run is no longer this run's: .*; nothing more is written there\n", errors)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files
