"""The table of a history: what is nested has names with dots, and it is there only while it says what the lines say."""

import csv

import pytest
import torch

import posterity as pt
from posterity.storage import History, flat, read_history, write_table


def test_what_is_nested_has_names_with_dots():
    record = {
        "epoch": 1,
        "noise": [0.5, 0.25],
        "groups": {"mean": {"lr": 0.1, "effective_rate": [1.0, 2.0]}},
        "kl_by_layer": {"a.b": 3.0},
        "warnings": ["one", "two"],
        "snr": [],
    }
    assert flat(record) == {
        "epoch": 1,
        "noise.0": 0.5,
        "noise.1": 0.25,
        "groups.mean.lr": 0.1,
        "groups.mean.effective_rate.0": 1.0,
        "groups.mean.effective_rate.1": 2.0,
        "kl_by_layer.a.b": 3.0,
        "warnings": "one; two",
        "snr": "",
    }


def test_columns_are_those_of_all_records(tmp_path):
    path = tmp_path / "history.csv"
    write_table(path, [{"epoch": 1, "word": "a,\nb"}, {"epoch": 2, "val": 1e-30}])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{"epoch": "1", "word": "a,\nb", "val": ""}, {"epoch": "2", "word": "", "val": "1e-30"}]
    assert [*tmp_path.iterdir()] == [path]


def test_is_removed_when_the_history_is_gone_on_with(tmp_path):
    history = History(tmp_path / "history.jsonl")
    history.append({"epoch": 1})
    history.tabulate()
    assert (tmp_path / "history.csv").read_text() == "epoch\n1\n"
    again = History(tmp_path / "history.jsonl")
    again.restore(1)
    assert not (tmp_path / "history.csv").exists()
    History().tabulate()  # in memory there is none


@pytest.mark.parametrize("diverges", [False, True])
def test_a_training_leaves_the_table_of_its_history(network, tmp_path, diverges):
    x = torch.randn(40, 3)
    data = (x, x.sum(1, keepdim=True))

    class Broken(pt.Callback):
        def on_step(self, training, loss):
            if diverges and training.epoch == 2:
                raise pt.PosterityError("broken")

    given = {"epochs": 3, "batch_size": 20, "out": tmp_path / "run", "callbacks": [Broken()]}
    if diverges:
        with pytest.raises(pt.PosterityError, match="broken"):
            pt.fit(network(3, 1), data, **given)
    else:
        pt.fit(network(3, 1), data, **given)
    with (tmp_path / "run" / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    records = read_history(tmp_path / "run" / "history.jsonl")
    assert len(rows) == len(records) == (2 if diverges else 3)
    assert [float(row["groups.mean.lr"]) for row in rows] == [r["groups"]["mean"]["lr"] for r in records]
    assert [float(row["noise"]) for row in rows] == [r["noise"] for r in records]
