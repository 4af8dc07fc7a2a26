"""The cells of ours in the table are of the present code: each task's first one repeats, or its beginning does.

Constants are compared by tests/docs/test_docs_defaults.py; here it is what the code makes of them.
"""

import json
import math

import pytest

import few_rows
from defaults import DOCS, FIRST, cell_path, keep, main
from defaults_baselines import Cell
from defaults_methods import METHODS, run_folder
from defaults_repeats import SCHEDULED, WHOLE, again, of_records, of_scores
from defaults_report import COMMANDS
from defaults_tasks import ALL, OTHERS, TASKS
from defaults_verdicts import OURS
from posterity.experiments import Run, execute
from shaken import SHAKEN, is_one_of, repeats, width

STORED = json.loads((DOCS / "defaults.json").read_text(encoding="utf-8"))
ROWS = {row["task"]: row for row in STORED["rows"] if row["method"] == OURS and row["seed"] == FIRST}
TASKED = list(ROWS.values())


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
    assert not changed, f"the code makes other numbers now: make the table anew, {anew(COMMANDS)}"


def anew(commands):
    run, table = commands
    return f"{run} --anew, then {table}"


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
    assert not changed, f"the code makes other numbers now: make the table anew, {anew(few_rows.COMMANDS)}"


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
    assert begun == of_records(record.history)
    assert begun["kl"] == record.history[2]["kl"]


def test_a_whole_training_has_the_numbers_of_its_beginning_too(tmp_path, monkeypatch):
    monkeypatch.setattr("defaults_repeats.BEGUN", 33)
    run = Run.of(dataset="two-moons", model="mlp", hidden=(8,), epochs=30)
    record = execute(run, tmp_path / "whole")
    whole = again(Cell(TASKS["two-moons"], FIRST, 30, tmp_path), run, tmp_path / "again")
    begun = of_records(record.history)
    assert begun.items() <= whole.items()
    assert {"accuracy", "nll", "brier"} == whole.keys() - begun.keys()
    assert begun["kl"] not in (record.history[0]["kl"], record.history[-1]["kl"])


@pytest.mark.parametrize("task", TASKED, ids=lambda row: row["task"])
def test_what_repeats_would_show_a_change(task):
    """Of each task one number at least that data decide is known to a tenth, as far as shaken trainings tell."""
    widths = [width(own(task, name)[1]) for name in task["repeats"] if name not in SCHEDULED]
    assert min(widths) < math.log(1.1)


def test_a_number_repeats_to_rounding_or_as_one_of_the_shaken():
    same, spread = [1.0] * SHAKEN, [1.01, 0.99, 1.0, 1.005, 0.995, 1.0, 1.0]
    assert repeats(1.001, 1.0, same, "nll")
    assert not repeats(1.01, 1.0, same, "nll")
    assert repeats(1.01, 1.0, spread, "nll")
    assert not repeats(1.1, 1.0, spread, "nll")
    assert not repeats(1.01, 1.1, spread, "nll")  # shaken trainings of newer code do not speak for an older number


def test_what_may_be_one_of_others():
    others = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.0]
    assert is_one_of(1.3, others)
    assert not is_one_of(2.0, others)
    assert not is_one_of(0.5, others)
    assert not is_one_of(1.3, others[:1] * 8)
    assert math.log(1.3) < width(others) < math.log(2.0)


def test_cells_are_forgotten_that_are_to_be_made_anew(tmp_path, monkeypatch):
    """Of ours: their files, their runs and their rows; others stay."""
    task = TASKS["two-moons"]
    cell = Cell(task, 0, task.epochs, tmp_path / "runs" / task.name)
    made = METHODS[OURS].run(cell)
    table = tmp_path / "defaults.json"
    rows = [{"task": name, "method": method, "seed": 0} for name in ("two-moons", "gap") for method in (OURS, "plain")]
    table.write_text(json.dumps({"versions": {}, "rows": rows}))
    keep(cell, OURS, {})
    keep(cell, "plain", {})
    folder = run_folder(cell, made, OURS)
    folder.mkdir(parents=True)
    words = ["defaults.py", "run", "--tasks", task.name, "--methods", OURS, "--seeds", "0", "--anew"]
    monkeypatch.setattr("sys.argv", [*words, "--out", str(tmp_path / "runs"), "--to", str(tmp_path)])
    monkeypatch.setattr("defaults.make", lambda cell, method: {"failed": method})
    main()
    assert not folder.exists()
    assert not cell_path(cell, OURS).exists()
    assert cell_path(cell, "plain").exists()
    assert json.loads(table.read_text())["rows"] == rows[1:]
