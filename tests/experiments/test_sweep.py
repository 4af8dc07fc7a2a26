"""Sweeps from Python: what they give, what they reuse, how bad items are recorded, adaptive search."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

import pytest

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Record, build, execute
from posterity.experiments.kept_data import keep_data
from posterity.experiments.row import DIVERGED, FAILED, FINISHED, PRUNED, WAITING
from posterity.experiments.sweep import prepare
from posterity.storage import RunDirectory

MOONS = {"dataset": "two-moons", "model": "mlp", "hidden": [4], "epochs": 2, "val_fraction": 0.2}


def test_a_sweep_is_a_table_of_runs_that_execute_would_give(tmp_path: Path):
    results = pt.sweep({"run": MOONS, "axes": {"lr": [0.1, 0.01]}, "samples": 4}, out=tmp_path / "out")
    assert isinstance(results, pt.Results)
    assert results.column("lr") == [0.1, 0.01]
    for row in results:
        record = execute(Record.read(row.folder).run, tmp_path / row.key, samples=4)
        assert {name: row.metrics[name] for name in record.test} == record.test
        assert row.metrics["val_nll"] == record.history[-1]["val_nll"]
    assert pt.Results.read(tmp_path / "out").column("accuracy") == results.column("accuracy")


def test_several_workers_give_the_same_table(tmp_path: Path):
    study = {"run": MOONS, "axes": {"lr": [0.1, 0.05, 0.01]}, "samples": 2}
    one, two = (pt.sweep(study, out=tmp_path / str(n), workers=n) for n in (1, 2))
    assert two.column("nll") == one.column("nll")
    with pytest.raises(UsageError, match="a worker at least"):
        pt.sweep(study, out=tmp_path, workers=0)


def test_what_is_finished_is_reused_also_by_a_larger_study(tmp_path: Path):
    small = {"run": MOONS, "axes": {"lr": [0.1]}, "samples": 2}
    (before,) = pt.sweep(small, out=tmp_path)
    files = {p: p.stat().st_mtime_ns for p in before.folder.rglob("*") if p.is_file()}
    assert [row.metrics for row in pt.sweep(small, out=tmp_path)] == [before.metrics]
    larger = pt.sweep({**small, "axes": {"lr": [0.1, 0.2]}}, out=tmp_path)
    assert larger[0].metrics == before.metrics
    assert len(larger.finished) == 2
    assert {p: p.stat().st_mtime_ns for p in files} == files


def test_bad_items_are_rows_with_their_error_and_the_rest_goes_on(tmp_path: Path):
    study = {
        "run": {**MOONS, "optimizer": "sgd", "schedule": "constant"}, "samples": 2,
        "axes": {"lr": [0.1, 1e38], "model_options.activation": ["tanh", "no such thing"]},
    }  # fmt: skip
    results = pt.sweep(study, out=tmp_path)
    states = {(row.config["lr"], row.config["model_options.activation"]): row for row in results}
    assert states[0.1, "tanh"].state == FINISHED
    assert states[1e38, "tanh"].state == DIVERGED
    assert "step" in states[1e38, "tanh"].error
    assert {states[lr, "no such thing"].state for lr in (0.1, 1e38)} == {FAILED}
    assert "no such thing" in states[0.1, "no such thing"].error


def test_functions_are_items_and_their_results_are_kept(tmp_path: Path, monkeypatch):
    study = {"function": "quadratic_descent", "parameters": {"curvature": 2.0}, "axes": {"lr": [0.1, 0.4, 3.0]}}
    results = pt.sweep(study, out=tmp_path)
    assert results.column("factor")[:2] == [pytest.approx(0.8), pytest.approx(0.2)]
    assert results.column("diverged") == [0.0, 0.0, 1.0]
    (tmp_path / "study.db").unlink()
    monkeypatch.setattr("posterity.experiments.worker.FUNCTIONS", {})
    assert pt.sweep(study, out=tmp_path).column("factor") == results.column("factor")


def test_record_says_what_is_kept(tmp_path: Path):
    results = pt.sweep({"run": MOONS, "record": ["val_*", "ece"], "samples": 2, "ood": ["noise"]}, out=tmp_path)
    assert set(results.columns["metrics"]) == {"val_nll", "val_accuracy", "ece"}
    whole = pt.sweep({"run": MOONS, "samples": 2, "ood": ["noise"]}, out=tmp_path)
    assert {"accuracy", "val_nll", "kl", "loss"} <= set(whole.columns["metrics"])
    assert any(name.startswith("noise.") for name in whole.columns["metrics"])


def test_a_search_finds_the_minimum_and_is_the_same_again(tmp_path: Path):
    study = {
        "name": "search", "function": "quadratic_descent", "parameters": {"curvature": 2.0}, "count": 25,
        "sampler": "tpe", "metric": "factor", "axes": {"lr": {"log_uniform": [1e-3, 0.99]}},
    }  # fmt: skip
    results = pt.sweep(study, out=tmp_path / "a")
    assert len(results.finished) == 25
    assert results.best("factor").config["lr"] == pytest.approx(0.5, abs=0.1)
    assert pt.sweep(study, out=tmp_path / "b").column("lr") == results.column("lr")
    longer = pt.sweep({**study, "count": 27}, out=tmp_path / "a")
    assert longer.column("lr")[:25] == results.column("lr")


def test_hopeless_runs_are_pruned_and_recorded_as_such(tmp_path: Path):
    study = {
        "run": {**MOONS, "epochs": 6, "optimizer": "sgd"}, "samples": 2, "sampler": "tpe", "prune": "median",
        "metric": "val_nll", "count": 12, "axes": {"lr": {"log_uniform": [1e-6, 0.5]}, "hidden": [[4], [5]]},
    }  # fmt: skip
    results = pt.sweep(study, out=tmp_path)
    pruned = results.where(state=PRUNED)
    assert 0 < len(pruned) < 12
    assert len(results.finished) + len(pruned) == 12
    for row in pruned:
        assert math.isfinite(row.metrics["val_nll"])
        assert len(row.history) < 6
    assert results.best("val_nll").config["lr"] > 0.01


def test_a_search_whose_metric_is_not_there_says_so(tmp_path: Path):
    study = {
        "function": "quadratic_descent", "sampler": "tpe", "metric": "eror", "count": 1, "axes": {"lr": [0.1, 0.2]},
    }  # fmt: skip
    (row,) = pt.sweep(study, out=tmp_path)
    assert row.state == FAILED
    assert "the metric 'eror' is None; there are: diverged, error, factor" in row.error


def test_a_folder_that_another_process_writes_in_is_waited_for(tmp_path: Path):
    study, place, _ = prepare({"run": MOONS, "samples": 2}, out=tmp_path)
    (key,) = study.items
    taken = RunDirectory(place / "items" / key)
    released = threading.Event()

    def hold() -> None:
        with taken:
            time.sleep(1.0)
            released.set()

    holder = threading.Thread(target=hold)
    holder.start()
    while not (place / "items" / key / ".lock").exists():
        time.sleep(0.01)
    (row,) = pt.sweep(study, out=tmp_path)
    assert released.is_set()
    assert row.state == FINISHED
    holder.join()


def test_a_study_that_was_not_begun_has_no_results_yet(tmp_path: Path):
    prepare({"run": MOONS}, out=tmp_path)
    with pytest.raises(UsageError, match="was not begun"):
        pt.Results.read(tmp_path)


def test_results_so_far(tmp_path: Path):
    study = {"run": MOONS, "axes": {"lr": [0.1, 1e-7]}, "samples": 2}
    pt.sweep({**study, "axes": {"lr": [0.1]}}, out=tmp_path)
    chosen, _, _ = prepare(study, out=tmp_path)
    assert [row.state for row in pt.Results.read(tmp_path)] == [WAITING] * 2
    assert chosen == pt.Study.of(tmp_path)


def test_data_are_read_once_while_they_are_kept(monkeypatch):
    loads = []
    real = build.data.load
    monkeypatch.setattr(build.data, "load", lambda name, **options: loads.append(name) or real(name, **options))
    run = pt.Study.of({"run": {"dataset": "digits"}, "seeds": 3})
    runs = [item.run for item in run.items.values()]
    with keep_data():
        kept = [build.build_data(run) for run in runs]
        assert kept[0] is kept[2]
        held_out = [build.build_data(run.model_copy(update={"val_fraction": 0.2})) for run in runs]
    assert len(loads) == 1
    assert not held_out[0].train.x.equal(held_out[1].train.x)
    fresh = build.build_data(runs[1].model_copy(update={"val_fraction": 0.2}))
    assert fresh is not held_out[1]
    assert fresh.train.x.equal(held_out[1].train.x)
    moons = [build.build_data(run.model_copy(update={"dataset": "two-moons"})) for run in runs]
    assert not moons[0].train.x.equal(moons[1].train.x)
