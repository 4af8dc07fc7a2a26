"""Sweeps whose workers are killed: at the end each item once, with the numbers of a sweep that nobody disturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import tomli_w

from posterity.experiments import Results
from posterity.experiments.database import storage_url
from posterity.experiments.lease import GIVEN_BACK, ITEM
from posterity.experiments.row import FINISHED
from posterity.experiments.sweep import sweep

KILLS = 8
STUDY = {
    "name": "moons",
    "seeds": 5,
    "samples": 2,
    "run": {
        "dataset": "two-moons", "model": "mlp", "hidden": [4], "train_rows": 100, "batch_size": 40, "epochs": 2,
        "val_samples": 1, "val_fraction": 0.2, "optimizer": "sgd",
    },
    "axes": {"lr": [0.01, 0.1, 0.5], "optimizer_options.momentum": [0.0, 0.5, 0.8, 0.9]},
}  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return sweep(STUDY, out=tmp_path_factory.mktemp("undisturbed"))


def numbers(results: Results) -> dict[str, dict[str, float]]:
    """Without the one thing that depends on the clock."""
    return {row.key: {k: v for k, v in row.metrics.items() if k != "train_seconds"} for row in results}


def disturbed(memory: Path, storage: str | None) -> Results:
    study, out = memory / "study.toml", memory / "out"
    study.write_text(tomli_w.dumps(STUDY))
    command = [sys.executable, Path(__file__).parent / "sweep_worker.py", study, out, storage or "", "7", str(KILLS)]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes.count("SIGKILL") == KILLS
    assert set(outcomes) == {"SIGKILL", "finished"}, done.stderr
    return Results.read(out, storage=storage)


def check(results: Results, undisturbed: Results, url: str) -> None:
    assert len(results) == 60
    assert [row.state for row in results] == [FINISHED] * 60
    assert numbers(results) == numbers(undisturbed)
    assert len({row.folder for row in results}) == 60
    trials = stored_trials(url)
    complete = [trial.user_attrs[ITEM] for trial in trials if trial.state.name == "COMPLETE"]
    assert sorted(complete) == sorted(row.key for row in results)  # recorded once each
    lost = [trial for trial in trials if trial.state.name == "FAIL" and GIVEN_BACK not in trial.user_attrs]
    assert 0 < len(lost) <= KILLS  # workers that died while they had an item


def stored_trials(url: str) -> list[optuna.trial.FrozenTrial]:
    storage = optuna.storages.RDBStorage(url)
    (study,) = storage.get_all_studies()
    trials = storage.get_all_trials(study._study_id)
    storage.remove_session()
    storage.engine.dispose()
    return trials


def test_killed_workers_lose_nothing_and_do_nothing_twice(memory: Path, undisturbed: Results) -> None:
    results = disturbed(memory, None)
    check(results, undisturbed, storage_url(None, memory / "out"))
    assert len(list((memory / "out/items").iterdir())) == 60


def test_killed_workers_on_postgresql(memory: Path, undisturbed: Results, postgres: str) -> None:
    check(disturbed(memory, postgres), undisturbed, storage_url(postgres, memory / "out"))
