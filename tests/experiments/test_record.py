"""Record: a run's folder read back, whatever state it is in."""

from __future__ import annotations

import shutil

import pytest
import torch

from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Record, Run, evaluate_run, execute

RUN = Run(dataset="digits", model="mlp", hidden=(8,), epochs=2, train_rows=200)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return execute(RUN, tmp_path_factory.mktemp("runs") / "run", samples=3, ood=["noise"]).folder


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run of one's own."""
    return shutil.copytree(finished, tmp_path / "run")


def test_a_finished_run(finished):
    record = Record.read(finished)
    assert record.finished
    assert record.run == RUN
    assert record.numbers().keys() == {"test", "ood"}
    assert list(record.columns()) == ["test", "noise"]
    assert record.columns()["test"] == record.test
    assert record.warnings == [*record.history[-1]["warnings"], *record.summary["ending"]["warnings"]]
    assert record.was_evaluated(3, ["noise"])
    assert record.was_evaluated(3, [])
    assert not record.was_evaluated(4, [])
    assert not record.was_evaluated(3, ["digits"])
    assert Record.read(str(finished)) == record


def test_it_may_be_moved(finished, tmp_path):
    moved = Record.read(shutil.copytree(finished, tmp_path / "elsewhere"))
    assert moved.test == Record.read(finished).test
    assert moved.load().finished


def test_an_unfinished_run(tmp_path):
    RUN.write(tmp_path / "config.toml")
    record = Record.read(tmp_path)
    assert record.run == RUN
    assert not record.finished
    assert (record.test, record.evaluation, record.history, record.predictions, record.warnings) == ({}, {}, [], {}, [])
    with pytest.raises(UsageError, match="no checkpoint yet"):
        record.load()


def test_an_evaluated_run_that_has_not_finished(folder):
    (folder / "summary.json").unlink()
    record = evaluate_run(folder, samples=2)
    assert record.test
    assert not record.finished


def test_a_folder_without_a_run(tmp_path):
    for place in (tmp_path, tmp_path / "nosuch"):
        with pytest.raises(UsageError, match="there is no run"):
            Record.read(place)


@pytest.mark.parametrize("content", [b"", b"epochs = ", b"\xff\xfe", b"nosuch = 1"])
def test_a_damaged_config(folder, content):
    (folder / "config.toml").write_bytes(content)
    if not content:  # what is missing has its default: another run
        assert not Record.read(folder).finished
        return
    with pytest.raises(CorruptFileError, match=r"config\.toml"):
        Record.read(folder)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_damaged_summary(folder, content):
    (folder / "summary.json").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"summary\.json"):
        Record.read(folder)


def test_a_summary_of_nothing_is_of_an_unfinished_run(folder):
    (folder / "summary.json").write_text('{"stopped": "epochs", "evaluation": {}}')
    assert not Record.read(folder).finished


def test_a_damaged_history(folder):
    with (folder / "history.jsonl").open("a") as file:
        file.write("{")
    with pytest.raises(CorruptFileError, match=r"history\.jsonl"):
        _ = Record.read(folder).history


def test_damaged_predictions(folder):
    place = folder / "predictions.npz"
    place.write_bytes(place.read_bytes()[:-100])
    with pytest.raises(CorruptFileError, match=r"predictions\.npz"):
        _ = Record.read(folder).predictions


def test_it_loads_the_network(finished):
    record = Record.read(finished)
    trained, stored = record.load(), record.predictions["last"]["test"]
    assert stored["targets"].shape == (360,)
    assert torch.equal(stored["mean"].argmax(1), stored["label"])
    assert trained.run == record.run
