"""Averages in a run's directory and on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from posterity import data
from posterity.core.errors import UsageError
from posterity.experiments import Record, Run, evaluate, execute, load_run
from posterity.report import write_evaluation_figures

RUN = Run(
    dataset="digits", model="mlp", hidden=(16,), epochs=3, lr=1e-2, average="hwa", average_every=3, average_start=0.4
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return execute(RUN.model_copy(update={"covariance": "low_rank", "average_rank": 3}), out, samples=4, ood=["noise"])


def test_the_average_is_kept_beside_the_last(trained):
    loaded, x = trained.load(), data.load_test("digits").x[:20]
    assert loaded.averaged.posterior.kind == "low_rank"
    assert loaded.averaged.posterior.rank == 3
    assert loaded.average().net is loaded.averaged
    stored = trained.predictions
    for name, one in loaded.networks().items():
        assert torch.equal(one.predict(x, 4, seed=0).mean, stored[name]["test"]["mean"][:20])
    assert not torch.equal(stored["last"]["test"]["mean"], stored["average"]["test"]["mean"])


def test_both_are_evaluated(trained):
    loaded = trained.load()
    found = evaluate(loaded, samples=4, ood=["noise"])
    alone = evaluate(loaded.average(), samples=4, ood=["noise"])
    assert list(alone) == ["last"]
    assert found["average"].as_dict() == alone["last"].as_dict() == trained.evaluation["average"]
    assert found["last"].as_dict() == {name: trained.evaluation[name] for name in ("test", "ood")}
    assert found["last"].test != found["average"].test
    assert list(trained.columns()) == ["last", "last, noise", "average", "average, noise"]


def test_both_are_drawn(trained, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("posterity.report.run_figures.save", lambda figure, place: drawn.append(figure))
    write_evaluation_figures(tmp_path, {"mlp": trained})
    assert [axes.get_title() for axes in drawn[0].axes[:2]] == ["mlp", "mlp, average"]


def test_a_run_without_one_says_so(tmp_path):
    record = execute(Run(dataset="digits", model="mlp", hidden=(16,), epochs=1), tmp_path / "run", samples=2)
    loaded = record.load()
    assert loaded.averaged is None
    assert list(evaluate(loaded, samples=2)) == list(record.predictions) == ["last"]
    assert list(record.columns()) == ["test"]
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
    assert Record.read("run").evaluation["average"]["test"]["accuracy"] > 0
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
    assert train("run", "--posterior", "low_rank", "--posterior-options", "rank=3", epochs=2).code == 0
    assert load_run("run").net.posterior.rank == 3
    assert cli("evaluate", "run", "--samples", 4).code == 0
