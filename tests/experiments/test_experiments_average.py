"""Averages in a run's directory and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from posterity.core.errors import UsageError
from posterity.experiments import Run, evaluate, load_run, train_run

RUN = Run(
    dataset="digits", model="mlp", hidden=(16,), epochs=3, lr=1e-2, average="hwa", average_every=3, average_start=0.4
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return out, train_run(RUN.model_copy(update={"covariance": "low_rank", "average_rank": 3}), out)


def test_the_average_is_kept_beside_the_last(trained, digits):
    out, result = trained
    loaded = load_run(out)
    x = digits.test.x[:20]
    assert loaded.averaged.posterior.kind == "low_rank"
    assert loaded.averaged.posterior.rank == 3
    for ours, theirs in ((loaded.net, result.net), (loaded.averaged, result.averaged)):
        assert torch.equal(ours.predict(x, 4, seed=0).samples, theirs.predict(x, 4, seed=0).samples)
    assert loaded.average().net is loaded.averaged


def test_both_are_evaluated(trained):
    out, _ = trained
    loaded = load_run(out)
    found = evaluate(loaded, samples=4, ood=["noise"])
    alone = evaluate(loaded.average(), samples=4, ood=["noise"])
    assert found.average.as_dict() == alone.as_dict() == found.as_dict()["average"]
    assert list(found.columns()) == ["last", "last, noise", "average", "average, noise"]
    assert list(alone.columns()) == ["test", "noise"]
    assert found.test != alone.test
    assert list(found.networks("mlp")) == ["mlp", "mlp, average"]


def test_a_run_without_one_says_so(tmp_path):
    train_run(
        RUN.model_copy(update={"average": None, "average_every": None, "average_start": 0.5, "epochs": 1}),
        tmp_path / "run",
    )
    loaded = load_run(tmp_path / "run")
    assert loaded.averaged is None
    assert evaluate(loaded, samples=2).average is None
    with pytest.raises(UsageError, match="without --average"):
        loaded.average()


def test_from_the_command_line(train, cli, digits):
    options = ("--average", "hwa", "--average-every", 5, "--average-start", 0.3, "--covariance", "snapshot")
    found = train("run", *options, "--average-restart", epochs=3)
    assert found.code == 0, found.err
    assert "last" in found.out
    assert "average" in found.out
    config = Run.read(Path("run/config.toml"))
    assert config.average_restart is True
    assert config.covariance == "snapshot"
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["evaluation"]["average"]["test"]["accuracy"] > 0
    evaluated = cli("evaluate", "run", "--samples", 4, "--json").json
    assert set(evaluated["average"]["test"]) == set(evaluated["test"])
    table = cli("evaluate", "run", "--samples", 4).out
    assert "last" in table
    assert "average" in table


def test_predictions_of_the_average(train, cli, digits):
    assert train("run", "--average", "swa", epochs=2).code == 0
    np.savez("x.npz", x=np.random.default_rng(0).uniform(size=(5, 64)).astype("float32"))
    for name, flags in {"last.npz": (), "average.npz": ("--average",)}.items():
        assert cli("predict", "run", "x.npz", "--out", name, *flags).code == 0
    assert np.load("last.npz")["mean"].shape == np.load("average.npz")["mean"].shape
    assert train("plain").code == 0
    refused = cli("predict", "plain", "x.npz", "--out", "p.csv", "--average")
    assert refused.code == 2
    assert "without --average" in refused.err


def test_wrong_usage_makes_no_directory(train, tmp_path):
    refused = train("run", "--average", "hwa", "--average-every", 1000)
    assert refused.code == 2
    assert "at least 1 snapshot;" in refused.err
    assert not (tmp_path / "run").exists()


def test_a_low_rank_posterior_from_the_command_line(train, cli):
    assert train("run", "--posterior", "low_rank", "--rank", 3, epochs=2).code == 0
    assert load_run("run").net.posterior.rank == 3
    assert cli("evaluate", "run", "--samples", 4).code == 0
