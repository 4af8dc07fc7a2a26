"""The table of our defaults is of the defaults that there are."""

import json

import pytest
from pages import ROOT

from defaults_report import COMMANDS, changed_defaults, page

STORED = ROOT / "docs" / "benchmarks" / "defaults.json"
ANEW = f"the table must be made anew: {', then '.join(COMMANDS)}"


@pytest.fixture(scope="module")
def stored():
    if not STORED.exists():
        pytest.fail(f"there is no {STORED.relative_to(ROOT).as_posix()}: {ANEW}")
    return json.loads(STORED.read_text(encoding="utf-8"))


def test_the_table_is_of_the_present_defaults(stored):
    changed = changed_defaults(stored)
    told = ", ".join(f"{name} was {before!r} and is {now!r}" for name, (before, now) in changed.items())
    assert not changed, f"{told}: {ANEW}"


def test_the_page_is_made_of_the_stored_cells(stored):
    """Nobody has written a number into it by hand."""
    assert STORED.with_suffix(".md").read_text(encoding="utf-8") == page(stored), f"run: {COMMANDS[-1]}"
