"""A run of an ensemble: trained, evaluated, loaded, resumed and drawn like any other."""

import json

import numpy as np
import pytest

from posterity.core.errors import UsageError
from posterity.ensemble import member_seed
from posterity.experiments import Record, Run, evaluate_run, execute, load_run
from posterity.experiments.build import build_data, build_network
from posterity.report import write_figures
from posterity.training import Settings, fit

RUN = Run(
    dataset="digits",
    model="mlp",
    hidden=(8,),
    train_rows=300,
    epochs=2,
    ensemble=3,
    optimizer="yellowfin",
    val_fraction=0.1,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return execute(RUN, tmp_path_factory.mktemp("ensemble") / "run", samples=6)


def test_members_are_the_networks_of_their_seeds(record, same):
    net = load_run(record.folder).net
    parts = build_data(RUN)
    for number, q in enumerate(net.posterior.parts, 1):
        own = RUN.model_copy(update={"ensemble": 1, "seed": member_seed(0, number)})
        alone = fit(build_network(own, parts.train), parts.train, parts.val, **own.training_values()).net
        assert same(dict(q.state_dict()), dict(alone.posterior.state_dict()))


def test_it_is_a_run_like_any_other(record):
    assert record.finished
    assert record.summary["last"]["member"] == 3
    assert [(r["member"], r["epoch"]) for r in record.history] == [(m, e) for m in (1, 2, 3) for e in (1, 2)]
    assert len(record.predictions["last"]["test"]["mean"]) == 360
    trained = load_run(record.folder)
    assert trained.finished
    assert trained.net.posterior.kind == "mixture"
    again = execute(RUN, record.folder, resume=True, samples=6)
    assert again.summary == record.summary
    assert evaluate_run(record.folder, samples=6).test == record.test


def test_its_figures_have_a_line_for_each_member(record, monkeypatch):
    drawn = {}
    monkeypatch.setattr("posterity.report.run_figures.save", lambda figure, place: drawn.update({place.name: figure}))
    write_figures(record)
    nll, tuned = drawn["training.png"].axes[0], drawn["tuning.png"].axes[0]
    assert [len(line.get_xdata()) for line in nll.lines] == [2] * 6  # train and validation
    assert nll.get_ylabel() == "nll per datum (nats)"
    assert [text.get_text() for text in nll.get_legend().texts] == ["train", "validation"]
    assert [len(line.get_xdata()) for line in tuned.lines] == [2] * 6  # h_max and h_min


def test_an_unfinished_one_is_not_evaluated(tmp_path):
    RUN.write(tmp_path / "config.toml")
    (tmp_path / "member-1").mkdir()
    with pytest.raises(UsageError, match="no checkpoint yet"):
        load_run(tmp_path)


def test_the_key_of_a_single_network_stays(record):
    assert Run(ensemble=1).key == Run().key != Run(ensemble=2).key
    assert Settings.of(**RUN.training_values())  # an ensemble's size is the network's, not the training's
    assert Record.read(record.folder).run.ensemble == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"deterministic": ("*.bias",)}, "are trained but not part of the posterior"),
        ({"learn_prior": True}, "own prior; they have one"),
        ({"prior_mean": "pretrained"}, "share the prior; these have other values"),
    ],
)
def test_refusals(given, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        execute(RUN.model_copy(update=given), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::posterity.training.ProlongedWarning")
def test_the_command(train, cli, tmp_path):
    assert train("run", "--ensemble", 2).code == 0
    again = cli("train", "--resume", "--out", "run", "--epochs", 2, "--quiet", "--json")
    assert again.code == 0
    found = cli("evaluate", "run", "--samples", 32, "--json")
    assert found.json["test"] == again.json["test"]
    np.savez(tmp_path / "images.npz", x=np.ones((3, 1, 8, 8)))
    assert cli("predict", "run", "images.npz", "--out", "found.csv").code == 0
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 1 + 3
    refused = cli("train", "--resume", "--out", "run", "--ensemble", 3)
    assert refused.code == 2
    assert "leave out --ensemble" in refused.err
    assert cli("train", "--ensemble", 0, "--out", "other").code == 2
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["last"]["member"] == 2
