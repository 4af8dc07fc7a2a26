"""Every script of the benchmarks starts, and the quick ones give a table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fit_step
import optimizers
import predictor_time
import step_time
from networks import WORKLOADS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def test_there_are_scripts():
    assert {"inference_table.py", "optimizer_table.py", "optimizers.py", "step_time.py"} <= set(SCRIPTS)


def test_every_script_starts():
    """In one process, since each would import PyTorch anew."""
    code = """
import contextlib, io, runpy, sys
for script in sys.argv[1:]:
    shown = io.StringIO()
    sys.argv = [script, "--help"]
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        runpy.run_path(script, run_name="__main__")
    assert shown.getvalue().startswith("usage:"), script
"""
    paths = [str(BENCHMARKS / script) for script in SCRIPTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_optimisers_are_timed():
    found = optimizers.compare(1000, rounds=1, inner=1)
    assert {"adam", "yellowfin", "adabayes", "ivon", "ivon, with its sample", "sgld", "psgld"} <= set(found["step"])
    assert found["step"]["adam"].median == 1


def test_steps_are_timed():
    found = step_time.compare(WORKLOADS["lenet5"], peers=[], rounds=1, inner=1, samples=2)
    assert set(found["step"]) == {"pytorch", step_time.FAIR, "posterity", *step_time.VARIANTS}
    assert set(found["predict"]) == {"pytorch", step_time.FAIR, "posterity"}
    assert "| posterity |" in step_time.table({"lenet5": found}, "step")
    assert found["milliseconds"]["posterity"] == pytest.approx(found["milliseconds"]["pytorch"], rel=100)


def test_steps_inside_fit_are_timed():
    found = fit_step.compare(WORKLOADS["lenet5"], rounds=1, inner=1)
    assert set(found["step"]) == {"pytorch", step_time.FAIR, fit_step.LEAST, fit_step.BARE, *fit_step.FITS}
    assert found["step"]["pytorch"].median == 1


def test_predictors_are_timed():
    found = predictor_time.compare("lenet5", rows=1, samples=2, rounds=1, inner=1)
    assert found["ratio"][predictor_time.TOGETHER].median == 1
    assert predictor_time.BY_HAND not in found["ratio"]
    assert f"| {predictor_time.PREDICTOR} |" in predictor_time.table({"lenet5": found})


def test_what_is_done_by_hand_is_what_the_networks_do():
    torch.manual_seed(0)
    plain, x = [predictor_time.make_wide() for _ in range(2)], torch.randn(3, 784)
    by_hand = predictor_time.by_hand(plain, x)()
    torch.testing.assert_close(by_hand, torch.stack([one(x) for one in plain]).detach())
