"""An ensemble that is killed with SIGKILL, in whatever member, is resumed and ends in the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("ensemble_worker.py")


def test_a_kill_in_any_member(memory, checkpoint_bytes, records):
    done = subprocess.run([sys.executable, WORKER, memory], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes["whole"] == "finished", done.stderr
    assert all(found == ["SIGKILL", "finished"] for found in outcomes["killed"]), done.stderr
    whole, runs = memory / "whole", sorted(memory.glob("point-*"))
    assert len(runs) == len(outcomes["killed"]) > 10
    expected = records(whole / "history.jsonl")
    assert [(r["member"], r["epoch"]) for r in expected] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    for run in runs:
        for part in ("", "member-1", "member-2", "member-3"):
            assert checkpoint_bytes(run / part) == checkpoint_bytes(whole / part), (run.name, part)
        assert records(run / "history.jsonl") == expected, run.name
        found, kept = (json.loads((folder / "summary.json").read_text()) for folder in (run, whole))
        assert found["evaluation"] == kept["evaluation"]
