"""Stored predictions are the fresh ones; files for people hold the same numbers."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

import posterity as pt
from posterity import data
from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Run, evaluate_run, execute, load_run, write_predictions
from posterity.experiments.predictions import read_stored

SMALL = {"model": "mlp", "hidden": (8,), "epochs": 2}


@pytest.mark.parametrize("dataset", ["digits", "diabetes", "two-moons"])
def test_stored_are_fresh(dataset, tmp_path):
    ood = ["noise"] if dataset == "digits" else []
    run = Run(dataset=dataset, **SMALL, average="swa", seed=4)
    record = execute(run, tmp_path / "run", samples=3, ood=ood)
    stored, test = record.predictions, data.load_test(dataset, seed=run.seed)
    assert list(stored) == ["last", "average"]
    for name, trained in load_run(tmp_path / "run").networks().items():
        assert list(stored[name]) == ["test", *ood]
        fresh = trained.predict(test.x, 3, seed=run.seed).columns()
        assert stored[name]["test"].keys() == {*fresh, "targets"}
        assert torch.equal(stored[name]["test"]["targets"], test.y)
        for what, tensor in fresh.items():
            assert torch.equal(stored[name]["test"][what], tensor), what


def test_an_evaluation_replaces_them(tmp_path):
    run = Run(dataset="digits", **SMALL)
    first = execute(run, tmp_path / "run", samples=3, ood=["noise"]).predictions
    again = evaluate_run(tmp_path / "run", samples=5).predictions
    assert list(first["last"]) == ["test", "noise"]
    assert list(again["last"]) == ["test"]
    assert not torch.equal(first["last"]["test"]["mean"], again["last"]["test"]["mean"])


def test_nothing_stored_and_something_else(tmp_path):
    assert read_stored(tmp_path / "predictions.npz") == {}
    np.savez(tmp_path / "predictions.npz", x=np.zeros(3))
    with pytest.raises(CorruptFileError, match="'x' that no run stores"):
        read_stored(tmp_path / "predictions.npz")


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".npz", ".NPZ"])
def test_files_hold_the_prediction(suffix, tmp_path):
    execute(Run(dataset="diabetes", **SMALL), tmp_path / "run", samples=2)
    prediction = load_run(tmp_path / "run").predict(data.load_test("diabetes").x[:4], 3, seed=0)
    path = tmp_path / f"p{suffix}"
    write_predictions(path, prediction)
    if suffix.lower() == ".csv":
        with path.open() as file:
            rows = list(csv.DictReader(file))
        found = {name: [[float(row[name])] for row in rows] for name in ("mean", "sd", "aleatoric_sd", "epistemic_sd")}
    else:
        arrays = np.load(path)
        assert arrays["samples"].shape == (3, 4, 1)
        found = {name: arrays[name] for name in ("mean", "aleatoric", "epistemic")}
    for name, values in found.items():
        np.testing.assert_allclose(values, getattr(prediction, name).numpy(), rtol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "run"]


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"\.csv or \.npz, not 'p\.txt'"):
        write_predictions(tmp_path / "p.txt", None)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "head"),
    [
        (pt.Poisson(), 1, "mean,sd,aleatoric_sd,epistemic_sd"),
        (pt.MultiLabel(), 2, "label_0,label_1,mean_0,mean_1,aleatoric_0"),
        (pt.GaussianNoise(num_targets=2), 2, "mean_0,mean_1,sd_0,sd_1,aleatoric_sd_0"),
    ],
)
def test_a_table_of_every_kind(likelihood, outputs, head, tmp_path):
    net = pt.bayesian(torch.nn.Linear(3, outputs), likelihood=likelihood, seed=0)
    write_predictions(tmp_path / "p.csv", net.predict(torch.randn(4, 3), samples=4, seed=0))
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0].startswith(head)
    assert {line.count(",") for line in lines} == {lines[0].count(",")}
    assert len(lines) == 5


def test_maps_have_no_table(tmp_path):
    net = pt.bayesian(torch.nn.Conv2d(1, 2, 1), likelihood=pt.Categorical(), seed=0)
    prediction = net.predict(torch.randn(2, 1, 3, 3), samples=2, seed=0)
    with pytest.raises(UsageError, match="maps of classes"):
        write_predictions(tmp_path / "p.csv", prediction)
    write_predictions(tmp_path / "p.npz", prediction)


def test_students_degrees_of_freedom_are_written(tmp_path):
    """Without them nobody could tell the density from means and sds."""
    likelihood = pt.GaussianNoise("learnt", num_targets=2)
    likelihood.load_state_dict(likelihood.state_dict() | {"df": torch.tensor([3.0, torch.inf])})
    with torch.no_grad():
        prediction = likelihood.predict(torch.randn(4, 5, 2))
    write_predictions(tmp_path / "p.npz", prediction)
    write_predictions(tmp_path / "p.csv", prediction)
    assert np.load(tmp_path / "p.npz")["df"].tolist() == [[3.0, np.inf]] * 5
    with (tmp_path / "p.csv").open() as file:
        assert list(next(csv.DictReader(file)))[:2] == ["mean_0", "mean_1"]
