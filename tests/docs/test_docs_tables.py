"""Tables that are made from the code are as the code makes them, and those by hand are complete."""

import re
import runpy

import pytest
from pages import NAMES, ROOT

from posterity.experiments import Run
from posterity.optim import OPTIMIZERS, SCHEDULES
from posterity.training.methods import METHODS

TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
OPTIMISATION = NAMES["docs/optimisation.md"].read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NAMES)
def test_tables_of_the_schema_are_up_to_date(page):
    text = NAMES[page].read_text(encoding="utf-8")
    assert TABLES["filled"](text) == text, "run: python docs/tables.py"


def test_every_setting_is_in_the_tables_of_runs():
    listed = re.findall(r"^\| `(\w+)` \|", NAMES["docs/runs.md"].read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(Run.model_fields)


def test_every_optimiser_and_schedule_is_described():
    for name in METHODS:
        assert f"`{name}`" in OPTIMISATION, name
    for name in SCHEDULES:
        assert f"| `{name}`" in OPTIMISATION, name


def test_the_default_rates_are_right():
    rows = [row.split("|")[1:3] for row in OPTIMISATION.splitlines() if row.startswith("| `")]
    checked = set()
    for names, rates in rows:
        listed = [name for name in re.findall(r"`([a-z-]+)`", names) if name in OPTIMIZERS]
        given = [float(rate) for rate in rates.split("/")] if listed else []
        for name, rate in zip(listed, given * len(listed) if len(given) == 1 else given, strict=True):
            assert METHODS[name].default_lr == rate, name
            checked.add(name)
    for name, rate in re.findall(r"`([a-z]+)` \(([\d.e-]+)\)", OPTIMISATION):
        assert METHODS[name].default_lr == float(rate), name
        checked.add(name)
    assert checked == {name for name, method in METHODS.items() if method.default_lr is not None}
