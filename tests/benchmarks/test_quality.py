"""`quality.py`: every method on a small network of blocks with batch norm, cells that are shared, times, the page."""

import json
import math
import sys

import pytest
import torch
from torch import nn

import defaults
import prediction_time
import quality
import quality_page as page_of
from defaults_baselines import Cell, chosen_path
from defaults_methods import METHODS
from defaults_swag import TRIALS
from defaults_tasks import TASKS, Task, score
from defaults_training import with_dropout
from defaults_verdicts import Cells
from networks import BasicBlock
from peers import PeerUnavailable
from posterity.models import MODELS

BLOCKS = Task("digits-blocks", "digits", "blocks", 1, seeds=1, trial_epochs=1, outside=50)


def blocks(input_shape, num_outputs):
    stem = (nn.Conv2d(input_shape[0], 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return nn.Sequential(*stem, BasicBlock(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_outputs))


@pytest.fixture
def cell(monkeypatch, tmp_path):
    monkeypatch.setitem(MODELS, "blocks", blocks)
    monkeypatch.setitem(TASKS, BLOCKS.name, BLOCKS)
    return Cell(BLOCKS, 0, 1, tmp_path / BLOCKS.name)


def had(make):
    """What `make` gives, or a skip where a peer is not installed."""
    try:
        return make()
    except PeerUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("method", quality.COMPARED)
def test_every_method_is_fitted_and_predicts_the_same_again(cell, method):
    fitted = had(lambda: METHODS[method].fit(cell))
    found = score(cell.problem, fitted.predict)
    assert all(map(math.isfinite, found.values()))
    assert fitted.seconds > 0
    x = cell.problem.x[:200]
    mean = fitted.predict(x).mean
    torch.testing.assert_close(mean.sum(-1), torch.ones(200))
    torch.testing.assert_close(fitted.predict(x).mean, mean)


def test_outside_data_are_as_many_as_the_task_says(cell):
    assert len(cell.problem.noise) == len(cell.problem.other) == 50
    assert len(cell.problem.x) == 360


def test_dropout_in_blocks_stands_before_all_weights_but_the_first():
    model = with_dropout(blocks((1, 8, 8), 10), images=True)
    assert isinstance(model[0], nn.Conv2d)
    wrapped = [model[3].conv1, model[3].conv2, model[6]]
    assert [[type(layer) for layer in each] for each in wrapped] == [
        [nn.Dropout, nn.Conv2d],
        [nn.Dropout, nn.Conv2d],
        [nn.Dropout, nn.Linear],
    ]


def test_dropout_leaves_batch_norm_as_it_was_trained(cell, monkeypatch):
    kept = []

    def keep(model, images):
        kept.append(with_dropout(model, images))
        return kept[-1]

    monkeypatch.setattr("defaults_baselines.with_dropout", keep)
    predict = METHODS["dropout"].fit(cell).predict
    (norm,) = [layer for layer in kept[0].children() if isinstance(layer, nn.BatchNorm2d)]
    before = norm.running_mean.clone()
    predict(cell.problem.x + 5)
    assert torch.equal(norm.running_mean, before)


def called(monkeypatch, tmp_path, *words):
    places = ["--out", tmp_path / "cells", "--to", tmp_path / "docs"]
    monkeypatch.setattr(sys, "argv", ["quality.py", *words, *map(str, places)])
    quality.main()
    written = tmp_path / "docs" / "quality.json"
    return json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}


def test_cells_of_the_table_of_defaults_are_taken(monkeypatch, tmp_path):
    task = TASKS["mnist-lenet5"]
    keys = defaults.key_of(Cell(task, 0, task.epochs, tmp_path), "ours")
    head = {"task": task.name, "seed": 0, "epochs": task.epochs, "nll": 0.02, "seconds": 90.0}
    repeats = {"kl": [1.0, 1.1]}
    rows = [{**head, "method": "plain"}, {**head, "method": "ours", **keys, "repeats": repeats}]
    rows += [{**head, "method": "dropout", "epochs": 1}]
    rows += [{**head, "method": "ours", "seed": seed, **keys, name: "another"} for seed, name in enumerate(keys, 1)]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "defaults.json").write_text(json.dumps({"versions": {"torch": "1"}, "rows": rows}))
    found = called(monkeypatch, tmp_path, "table", "--tasks", task.name, "--seeds", "0", "1")
    assert [(row["method"], row["seed"], row["nll"]) for row in found["rows"]] == [
        ("plain", 0, 0.02),
        ("ours", 0, 0.02),
    ]
    assert found["rows"][1]["repeats"] == repeats
    assert found["versions"] == {"torch": "1"}
    assert list(found["methods"]) == [name for name in METHODS if name in quality.COMPARED]


def test_the_rate_of_authors_is_not_the_one_that_was_chosen_for_the_task(monkeypatch, tmp_path):
    """Those of plain, SWAG and Muon are."""
    task = TASKS["mnist-lenet5"]
    rates = {"plain": 0.003, "bayesian-torch": 0.001, "swag": 0.03}
    head = {"task": task.name, "seed": 0, "epochs": task.epochs, "nll": 0.02, "seconds": 90.0}
    rows = [{**head, "method": name, "rate": rate} for name, rate in rates.items()]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "quality.json").write_text(json.dumps({"versions": {}, "rows": rows}))
    called(monkeypatch, tmp_path, "table", "--tasks", task.name, "--seeds", "0")
    cell = Cell(task, 0, task.epochs, tmp_path / "cells" / task.name)
    assert [json.loads(chosen_path(cell, name).read_text())["rate"] for name in ("", TRIALS)] == [0.003, 0.03]


def test_a_network_that_there_is_not_is_left_out_with_a_word(monkeypatch, tmp_path):
    monkeypatch.delitem(MODELS, "resnet20", raising=False)
    found = called(monkeypatch, tmp_path, "table", "--tasks", "cifar10-resnet20", "--seeds", "0")
    assert found["left_out"] == {"cifar10-resnet20": "this version of posterity has no model resnet20"}
    assert (found["tasks"], found["rows"]) == ({}, [])


def test_run_makes_cells_and_times_once(cell, monkeypatch, tmp_path):
    words = ("--tasks", BLOCKS.name, "--methods", "plain", "ours")
    called(monkeypatch, tmp_path, "run", *words)
    found = called(monkeypatch, tmp_path, "table", *words)
    assert {row["method"]: row["threads"] for row in found["rows"]} == {"plain": 1, "ours": 1}
    assert set(found["prediction"][BLOCKS.name]) == {"plain", "ours"}
    monkeypatch.setattr(defaults, "make", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(prediction_time, "measure", lambda *_: pytest.fail("timed again"))
    called(monkeypatch, tmp_path, "run", *words)
    page = (tmp_path / "docs" / "quality.md").read_text(encoding="utf-8")
    assert "## digits-blocks: blocks, 1 epochs, seeds 0" in page
    assert "threads of the trainings: 1." in page


def test_times_are_scaled_to_the_whole_test_set(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        prediction_time, "measure", lambda calls, rounds, inner: {n: [c(), 1.0, 9.0][1:] for n, c in calls.items()}
    )
    found = prediction_time.seconds_of({"a": lambda x: sizes.append(len(x))}, torch.zeros(40, 3), rows=10, rounds=2)
    assert sizes == [10]
    assert found == {"a": 20.0}  # the median of 1 and 9, four times


def row(method, seed, nll, **more):
    return {"task": "t", "method": method, "seed": seed, "epochs": 7, "nll": nll, "seconds": 1.0, **more}


@pytest.fixture
def stored():
    facts = {"kind": "classification", "network": "n", "epochs": 7, "splits": False, "seeds": [0, 1], "other": False}
    rows = [row("plain", s, n, threads=1) for s, n in ((0, 0.1), (1, 0.3))] + [row("ours", s, 0.25) for s in (0, 1)]
    return {
        "schema": 3,
        "versions": {"torch": "2"},
        "tasks": {"t": facts},
        "methods": {"plain": "p", "swag": "s", "ours": "o"},
        "left_out": {"cifar10-resnet20": "none"},
        "prediction": {"t": {"plain": {"seconds": 1.234, "rows": 1000}, "swag": {"seconds": 2.0, "rows": 1000}}},
        "rows": rows,
    }


def test_the_page_by_hand(stored):
    page = page_of.page(stored)
    assert "| | accuracy, % | nll | ECE | AUROC, noise | seconds | prediction, s |" in page
    assert "| plain |  | **0.2000 ± 0.1000** |  |  | 1.0 ± 0.0 | 1.23 |" in page
    assert "| swag | missing | missing | missing | missing | missing | missing |" in page
    assert "| ours |  | 0.2500 ± 0.0000 |  |  | 1.0 ± 0.0 |  |" in page
    assert "Better than ours: nll: plain." in page
    assert "- **cifar10-resnet20** is left out: none" in page
    assert page.endswith("threads of the trainings: 1, not recorded of 2 of 4 cells.\n")


def test_a_time_stands_in_one_row_of_its_method(stored):
    diverged = [{"task": "t", "method": "plain", "seed": 0, "failed": "nan"}, *stored["rows"][1:]]
    found = page_of.with_prediction(diverged, stored["prediction"])
    assert [each.get("prediction") for each in found] == [None, 1.234, None, None]


def test_who_has_not_all_seeds_is_not_better(stored):
    cells = Cells(stored["tasks"], [*stored["rows"], row("swag", 0, 0.01)])
    assert page_of.better(cells, "t", ["plain", "swag", "ours"]) == ["nll: plain"]
