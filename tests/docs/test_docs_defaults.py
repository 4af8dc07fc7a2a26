"""The tables of our defaults, and of them beside other libraries, are of the defaults that there are."""

import json

import pytest
from pages import ROOT

import defaults_report
import quality_page
import uci
from defaults_report import changed_defaults

PAGES = {page.NAME: page for page in (defaults_report, quality_page, uci)}


def anew(name):
    return f"the table must be made anew: {', then '.join(PAGES[name].COMMANDS)}"


def path(name):
    return ROOT / "docs" / "benchmarks" / f"{name}.json"


@pytest.fixture(scope="module", params=list(PAGES))
def table(request):
    """Name and content."""
    name = request.param
    if not path(name).exists():
        pytest.fail(f"there is no {path(name).relative_to(ROOT).as_posix()}: {anew(name)}")
    return name, json.loads(path(name).read_text(encoding="utf-8"))


def test_the_table_is_of_the_present_defaults(table):
    name, stored = table
    changed = changed_defaults(stored)
    told = ", ".join(f"{name} was {before!r} and is {now!r}" for name, (before, now) in changed.items())
    assert not changed, f"{told}: {anew(name)}"


def test_the_page_is_made_of_the_stored_cells(table):
    """Nobody has written a number into it by hand."""
    name, stored = table
    page = path(name).with_suffix(".md").read_text(encoding="utf-8")
    assert page == PAGES[name].page(stored), f"run: {PAGES[name].COMMANDS[-1]}"
