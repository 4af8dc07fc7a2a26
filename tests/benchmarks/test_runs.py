"""Tables of runs: each is executed once, and read afterwards."""

import json
import sys

import pytest

import inference_table
import optimizer_table
import runs
from posterity.experiments import Record, Run, evaluate
from posterity.training.methods import METHODS

SMALL = {"dataset": "digits", "model": "mlp", "hidden": (8,), "epochs": 2, "train_rows": 200, "val_fraction": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def averaged(folder):
    run = Run(**SMALL, lr=0.01, average="hwa", average_every=1)
    return run, runs.measure(run, folder, samples=3)


def test_a_run_is_found_by_its_key(averaged, folder):
    run, found = averaged
    record = Record.read(folder / run.key)
    assert record.run == run
    assert found["last"].items() >= {name: record.test[name] for name in ("accuracy", "nll", "ece")}.items()
    assert found["average"]["nll"] == record.evaluation["average"]["test"]["nll"]
    assert found["milliseconds"] == pytest.approx(1e3 * found["seconds"] / 4)


def test_swa_has_the_averages_means_and_the_last_sds(averaged, folder):
    run, found = averaged
    networks = runs._networks(Record.read(folder / run.key))
    assert list(networks) == ["last", "average", "swa"]
    swa, last, average = (networks[name].net.posterior for name in ("swa", "last", "average"))
    assert swa.mean.equal(average.mean)
    assert swa.sd.equal(last.sd)
    assert not swa.mean.equal(last.mean)
    assert found["swa"]["nll"] == evaluate(networks["swa"], samples=3, seed=run.seed)["last"].test["nll"]


def test_what_is_there_is_not_trained_again(averaged, folder, monkeypatch):
    run, found = averaged
    monkeypatch.setattr(sys.modules["posterity.experiments.execute"], "carry_out", None)
    assert runs.measure(run, folder, samples=3) == found


def test_one_that_diverges_stops_no_other(tmp_path):
    wild = Run(**SMALL, optimizer="sgd", lr=1e30)
    found = runs.measure_all([("wild", wild), ("calm", Run(**SMALL))], tmp_path)
    assert "NonFiniteError" in found["wild"]["failed"]
    assert found["calm"]["last"]["accuracy"] > 0
    assert list(runs.measure_all([("wild", wild), ("calm", Run(**SMALL))], tmp_path, finished=True)) == ["calm"]


def test_every_method_has_a_run_and_a_row(tmp_path):
    named = dict(optimizer_table.table_runs("digits", 1))
    assert list(named) == list(METHODS)
    small = {name: run.model_copy(update=SMALL) for name, run in named.items() if name in ("adam", "ivon", "sgld")}
    found = runs.measure_all([(name, run.model_copy(update={"average_every": None})) for name, run in small.items()],
                             tmp_path)  # fmt: skip
    rows = optimizer_table.table({**found, "wild": {"failed": "it diverged"}}).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:5]] == ["| adam", "| ivon", "| sgld"]
    assert "| 0.003 |" in rows[2]
    assert "| by data |" in rows[4]
    assert "failed: it diverged" in rows[5]


def test_the_inference_table(averaged, tmp_path, capsys):
    labels = [label for label, _ in inference_table.table_runs("digits", 1)]
    assert len(labels) == 3 * 3 + 1
    times = inference_table.step_times("digits", 1, 1)
    assert set(labels) < set(times)
    rows = inference_table.table({labels[0]: {**averaged[1], "time": str(times[labels[0]])}})
    assert [row.split(" | ")[3] for row in rows.splitlines()[2:]] == ["last", "SWA", "HWA"]
    runs.publish("table", inference_table.__doc__, rows, {"a": 1}, tmp_path / "out")
    assert capsys.readouterr().out.startswith("| data | estimator")
    assert (tmp_path / "out" / "table.md").read_text().startswith("# Estimator x gradient kind")
    assert json.loads((tmp_path / "out" / "table.json").read_text()) == {"a": 1}
