"""The figures of a run are drawn from its record alone."""

from __future__ import annotations

import json
import shutil

import pytest

from posterity.experiments import Record, Run, execute
from posterity.report import write_evaluation_figures, write_figures, write_training_figures

RUN = Run(dataset="digits", model="mlp", hidden=(8,), epochs=1, train_rows=200)
TUNED = {"h_min": 0.5, "h_max": 20.0, "C": 3.0, "D": 0.1, "mu": 0.7, "lr": 0.05}


@pytest.fixture
def drawn(monkeypatch):
    """Figures by file name instead of files."""
    found = {}
    monkeypatch.setattr("posterity.report.run_figures.save", lambda figure, place: found.update({place.name: figure}))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return execute(RUN, tmp_path_factory.mktemp("runs") / "run", samples=2, ood=["noise"]).folder


def test_the_checkpoint_is_not_needed(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(copy / "checkpoint")
    written = write_figures(Record.read(copy))
    assert [path.relative_to(copy).as_posix() for path in written] == [
        "figures/training.png",
        "figures/reliability.png",
        "figures/confidence.png",
    ]
    assert all(path.stat().st_size > 1000 for path in written)


def test_confidences_of_all_data_are_drawn(folder, drawn):
    write_figures(Record.read(folder))
    figure = drawn["confidence.png"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["test", "noise"]
    test = Record.read(folder).test
    assert drawn["reliability.png"].axes[0].texts[0].get_text() == f"ECE {test['ece']:.3f}"


def test_runs_stand_side_by_side(folder, drawn, tmp_path):
    record = Record.read(folder)
    written = write_evaluation_figures(tmp_path, {"one": record, "two": record})
    assert [path.parent for path in written] == [tmp_path] * 2
    assert [axes.get_title() for axes in drawn["reliability.png"].axes[:2]] == ["one", "two"]


def test_curves_are_labelled_by_task_and_posterior(drawn, tmp_path):
    run = Run(dataset="gap", model="mlp", hidden=(8,), epochs=1, posterior="point")
    written = write_figures(execute(run, tmp_path / "run", samples=2))
    assert [path.name for path in written] == ["training.png"]  # no classes, no calibration
    labels = [axes.get_ylabel() for axes in drawn["training.png"].axes]
    assert labels == ["nll per standardised datum (nats)", "-log prior, all weights (nats)", "rmse (standardised)"]


def test_an_optimiser_that_tunes_itself_gets_a_figure(tmp_path):
    RUN.write(tmp_path / "config.toml")
    epoch = {"epoch": 1, "nll": 1.0, "groups": {"mean": {"lr": 1.0}, "sd": {"lr": 1.0}}}
    for tuning, names in (
        ([], ["training.png"]),
        (["mean"], ["training.png", "tuning.png"]),
        (["mean", "sd"], ["training.png", "tuning.png", "tuning-sd.png"]),
    ):
        for group in tuning:
            epoch["groups"][group]["tuning"] = TUNED
        (tmp_path / "history.jsonl").write_text(json.dumps(epoch) + "\n")
        written = write_training_figures(Record.read(tmp_path))
        assert [path.name for path in written] == names
        assert all(path.is_file() for path in written)
