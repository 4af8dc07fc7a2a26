"""Data far from 0 and of odd scales, from files of all kinds, wherever they lie: right numbers in their own units."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest

from posterity.experiments import Record, Run, execute

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
SIGNAL = X[:, 0] + 0.05 * RNG.normal(size=200)  # mean 0, sd 1
TARGETS = {"1e9 +- 4": (1e9, 4.0), "1e19": (0.0, 1e19), "1e-23": (0.0, 1e-23)}
OPTIONS = ("--model", "mlp", "--hidden", "16", "--epochs", 30, "--lr", 0.02, "--batch-size", 20, "--temperature", 0.1)


def write(path, columns):
    path = Path(path)
    if path.suffix.lower() == ".csv":
        with path.open("w", newline="") as file:
            rows = zip(*columns.values(), strict=True)
            csv.writer(file).writerows([list(columns), *([repr(float(v)) for v in row] for row in rows)])
        return
    names = [name for name in columns if name != "y"]
    arrays = {"x": np.stack([columns[name] for name in names], 1)}
    if "y" in columns:
        arrays["y"] = columns["y"]
    with path.open("wb") as file:
        np.savez(file, **arrays)


def predicted(path):
    if path.endswith(".csv"):
        with open(path) as file:
            rows = list(csv.DictReader(file))
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    arrays = np.load(path)
    return {"mean": arrays["mean"][:, 0], "sd": np.sqrt(arrays["aleatoric"] + arrays["epistemic"])[:, 0]}


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """They take longer than the rest, and have tests of their own."""
    monkeypatch.setattr("posterity.report.write_figures", lambda record: [])


@pytest.fixture
def fit(cli):
    def run(dataset, out="run", *options):
        done = cli("train", "--dataset", dataset, *OPTIONS, "--quiet", "--json", "--out", out, *options)
        assert done.code == 0, done.err
        return done.json["test"]

    return run


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Metrics with targets of mean 0 and sd 1."""
    folder = tmp_path_factory.mktemp("plain")
    write(folder / "d.npz", {"a": X[:, 0], "b": X[:, 1], "y": SIGNAL})
    run = Run(
        dataset=str(folder / "d.npz"), model="mlp", hidden=(16,), epochs=30, lr=0.02, batch_size=20, temperature=0.1
    )
    test = execute(run, folder / "run").test
    assert 0.03 < test["rmse"] < 0.4
    return test


@pytest.mark.parametrize("suffix", ["csv", "npz"])
@pytest.mark.parametrize("name", TARGETS)
def test_targets_of_any_scale(fit, cli, name, suffix, plain):
    """Other units than those of `plain`, but the same training."""
    centre, scale = TARGETS[name]
    y = centre + scale * SIGNAL
    write(f"d.{suffix}", {"a": X[:, 0], "b": X[:, 1], "y": y})
    write(f"x.{suffix}", {"a": X[:, 0], "b": X[:, 1]})
    test = fit(f"d.{suffix}")
    assert all(map(math.isfinite, test.values())), test
    assert test["rmse"] / scale == pytest.approx(plain["rmse"], rel=1e-3)
    assert test["crps"] / scale == pytest.approx(plain["crps"], rel=1e-3)
    assert test["log_likelihood"] + math.log(scale) == pytest.approx(plain["log_likelihood"], abs=2e-3)
    assert test["coverage_95"] == pytest.approx(plain["coverage_95"], abs=0.03)
    for kind in ("csv", "npz"):
        done = cli("predict", "run", f"x.{suffix}", "--out", f"p.{kind}", "--samples", 16)
        assert done.code == 0, done.err
    table, arrays = predicted("p.csv"), np.load("p.npz")
    assert all(np.isfinite(column).all() for column in table.values())
    assert 0.03 < np.sqrt(np.mean(((table["mean"] - y) / scale) ** 2)) < 0.4
    for column in ("sd", "aleatoric_sd"):
        assert ((table[column] / scale > 0.02) & (table[column] / scale < 0.8)).all(), column
    assert (table["epistemic_sd"] > 0).all()
    parts = table["aleatoric_sd"] / scale, table["epistemic_sd"] / scale
    np.testing.assert_allclose(table["sd"] / scale, np.hypot(*parts), rtol=1e-5)
    np.testing.assert_allclose(arrays["mean"][:, 0], table["mean"], rtol=1e-9)
    samples = (arrays["samples"][..., 0] - centre) / scale
    np.testing.assert_allclose(samples.mean(0), (table["mean"] - centre) / scale, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_column_of_unix_seconds(fit, cli, suffix):
    """Days within a year decide; shifting the clock to 0 changes nothing."""
    days = RNG.uniform(0, 365, size=300)
    label = (days > 180).astype(int)
    other = RNG.normal(size=300)
    options = ("--task", "classification", "--epochs", 12)
    found = {}
    for name, shift in {"unix": 1.7e9, "shifted": 0.0}.items():
        write(f"{name}.{suffix}", {"time": shift + days, "b": other, "y": label})
        found[name] = fit(f"{name}.{suffix}", name, *options)
    assert found["unix"]["accuracy"] > 0.9
    assert found["unix"]["accuracy"] == pytest.approx(found["shifted"]["accuracy"], abs=0.02)
    assert found["unix"]["nll"] == pytest.approx(found["shifted"]["nll"], abs=0.02)
    write(f"x.{suffix}", {"time": 1.7e9 + days, "b": other})
    assert cli("predict", "unix", f"x.{suffix}", "--out", "p.npz").code == 0
    assert (np.load("p.npz")["label"] == label).mean() > 0.9


@pytest.mark.parametrize("suffix", ["CSV", "Npz"])
def test_suffixes_in_upper_case(fit, cli, suffix):
    write(f"d.{suffix}", {"a": X[:, 0], "b": X[:, 1], "y": SIGNAL})
    fit(f"d.{suffix}")
    write(f"x.{suffix}", {"b": X[:, 1], "a": X[:, 0]} if suffix == "CSV" else {"a": X[:, 0], "b": X[:, 1]})
    assert cli("predict", "run", f"x.{suffix}", "--out", "p.csv").code == 0
    assert np.sqrt(np.mean((predicted("p.csv")["mean"] - SIGNAL) ** 2)) < 0.4
    assert cli("evaluate", "run", "--samples", 2).code == 0


def test_a_symbolic_link_is_the_file_it_leads_to(fit, cli, tmp_path):
    (tmp_path / "store").mkdir()
    write("store/blob.csv", {"a": X[:, 0], "b": X[:, 1], "y": SIGNAL})
    (tmp_path / "store" / "blob.csv").rename(tmp_path / "store" / "blob")  # a store without suffixes
    (tmp_path / "d.csv").symlink_to("store/blob")
    (tmp_path / "there").symlink_to("store")
    fit("d.csv")
    assert Record.read("run").run.dataset == str(tmp_path.resolve() / "d.csv")
    (tmp_path / "store" / "e.csv").symlink_to("blob")
    assert fit("there/e.csv", "other") == Record.read("run").test
    assert cli("evaluate", "run", "--samples", 2).code == 0


def test_a_run_is_evaluated_and_replayed_from_another_folder(fit, cli, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    write("data/d.csv", {"a": X[:, 0], "b": X[:, 1], "y": SIGNAL})
    first = fit("data/d.csv")
    (tmp_path / "my.toml").write_text('dataset = "data/d.csv"\nmodel = "mlp"\nhidden = [4]\nepochs = 1\n')
    assert cli("train", "--config", "my.toml", "--quiet", "--out", "configured").code == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert cli("evaluate", "../run", "--json").json["test"] == first
    assert cli("evaluate", "../configured", "--samples", 2).code == 0
    replayed = cli("train", "--config", "../run/config.toml", "--out", "again", "--quiet", "--json")
    assert replayed.json["test"] == first
    assert replayed.json["key"] == Record.read("../run").run.key
    resumed = cli("train", "--out", "../run", "--resume", "--dataset", "../data/d.csv", "--quiet", "--json")
    assert resumed.json["test"] == first
    assert os.listdir() == ["again"]
