"""The cells of ours in the table are of the present code: each task's first one repeats, or its beginning does.

Constants are compared by tests/docs/test_docs_defaults.py; here it is what the code makes of them.
"""

import json

import pytest

import few_rows
from defaults import DOCS, FIRST
from defaults_baselines import Cell
from defaults_methods import METHODS
from defaults_repeats import BEGUN, WHOLE, again, of_history, of_scores
from defaults_report import COMMANDS
from defaults_tasks import ALL, OTHERS, TASKS
from defaults_verdicts import OURS
from posterity.experiments import Run, execute
from shaken import SHAKEN, repeats

STORED = json.loads((DOCS / "defaults.json").read_text(encoding="utf-8"))
ROWS = {row["task"]: row for row in STORED["rows"] if row["method"] == OURS and row["seed"] == FIRST}


@pytest.mark.parametrize("name", [task.name for task in ALL])
def test_a_cell_of_ours_repeats(name, tmp_path, fetched):
    row, task = ROWS[name], TASKS[name]
    fetched(task.dataset)
    if name in WHOLE and task.dataset in OTHERS:
        fetched(OTHERS[task.dataset][0])
    cell = Cell(task, FIRST, row["epochs"], tmp_path)
    run = METHODS[OURS].run(cell)
    assert run.key == row["key"]
    found = again(cell, run, tmp_path / "run")
    assert found.keys() == row["repeats"].keys()
    changed = {n: (value, row["repeats"][n]) for n, value in found.items() if not repeats(value, *own(row, n), n)}
    assert not changed, f"the code makes other numbers now: make the table anew, {', then '.join(COMMANDS)}"


def own(row, name):
    """The number of the cell itself, and those of the shaken ones."""
    first, *others = row["repeats"][name]
    assert len(others) == SHAKEN
    return first, others


@pytest.mark.parametrize("name", few_rows.PROBLEMS)
def test_regressions_of_few_rows_repeat(name):
    """Short trainings of each."""
    stored = json.loads((DOCS / "few_rows.json").read_text(encoding="utf-8"))["rows"]
    place = {"problem": name, "method": few_rows.OURS, "seed": few_rows.SEEDS[0]}
    (row,) = (row for row in stored if place.items() <= row.items())
    found = few_rows.short(few_rows.PROBLEMS[name])
    assert found.keys() == row["repeats"].keys()
    changed = {n: (value, row["repeats"][n]) for n, value in found.items() if not repeats(value, *own(row, n), n)}
    assert not changed, f"the code makes other numbers now: make the table anew, {', then '.join(few_rows.COMMANDS)}"


@pytest.mark.parametrize("name", WHOLE)
def test_what_repeats_are_the_scores_of_the_row(name):
    row = ROWS[name]
    for number, value in of_scores(row).items():
        assert row["repeats"][number][0] == pytest.approx(value, rel=1e-5)


def test_a_beginning_is_that_of_the_whole_training(tmp_path, monkeypatch):
    """Of one that goes on after it."""
    monkeypatch.setattr("defaults_repeats.BEGUN", 33)
    monkeypatch.setattr("defaults_repeats.WHOLE", ())
    run = Run.of(dataset="digits", model="mlp", hidden=(8,), epochs=4, train_rows=1000)
    record = execute(run, tmp_path / "whole")
    assert [line["step"] for line in record.history] == [10, 20, 30, 40]
    begun = again(Cell(TASKS["digits-mlp"], FIRST, 4, tmp_path), run, tmp_path / "begun")
    assert begun == of_history(record)
    assert begun["kl"] == record.history[2]["kl"]


def test_a_number_repeats_to_rounding_or_as_one_of_the_shaken():
    assert repeats(1.001, 1.0, [1.0] * SHAKEN, "nll")
    assert not repeats(1.01, 1.0, [1.0] * SHAKEN, "nll")
    assert repeats(1.01, 1.0, [1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0], "nll")
    assert BEGUN >= 500
