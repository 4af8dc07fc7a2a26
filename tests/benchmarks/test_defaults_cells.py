"""Which cells `defaults.py` takes for finished."""

import json
import sys

import pytest

import defaults
from defaults_baselines import Cell
from defaults_methods import Method
from defaults_tasks import TASKS


def write(path, method, epochs):
    head = {"task": "gap", "method": method, "seed": 0, "epochs": epochs, "versions": {"torch": "1"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "scores": {"rmse": 0.25}, "seconds": 1.0}))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes the table of one task and seed from what is in a folder."""

    def table(*methods):
        words = ["table", "--tasks", "gap", "--seeds", "0", "--methods", *methods]
        places = ["--out", tmp_path / "cells", "--to", tmp_path / "docs"]
        monkeypatch.setattr(sys, "argv", ["defaults.py", *words, *map(str, places)])
        defaults.main()
        return json.loads((tmp_path / "docs" / "defaults.json").read_text())

    return table


def test_of_ours_only_the_present_key_counts(tmp_path, made, capsys):
    cell = Cell(TASKS["gap"], 0, TASKS["gap"].epochs, tmp_path / "cells" / "gap")
    write(cell.folder / "ours" / "0-0123456789abcdef.json", "ours", cell.epochs)
    assert made("plain", "ours")["rows"] == []
    assert "0 of 2 cells" in capsys.readouterr().out
    write(defaults.cell_path(cell, "ours"), "ours", cell.epochs)
    write(defaults.cell_path(cell, "plain"), "plain", cell.epochs - 1)  # a trial's
    expected = {"task": "gap", "method": "ours", "seed": 0, "epochs": cell.epochs, "rmse": 0.25, "seconds": 1.0}
    assert made("plain", "ours")["rows"] == [expected]


def test_what_the_library_lacks_is_left_out_with_a_word(monkeypatch, made, capsys):
    lacking = Method("of later", lambda cell: pytest.fail("fitted"), lacks="there is none yet")
    monkeypatch.setitem(defaults.METHODS, "ours-laplace", lacking)
    found = made("plain", "ours-laplace")
    assert found["left_out"] == {"ours-laplace": "there is none yet"}
    assert found["rows"] == []
    assert "0 of 1 cells" in capsys.readouterr().out
