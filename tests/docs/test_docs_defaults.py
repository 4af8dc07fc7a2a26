"""The tables of our defaults, and of them beside other libraries, are of the defaults that there are."""

import json

import pytest
from pages import ROOT

import defaults_report
import few_rows
import quality_page
import uci
from defaults_rules import changed_defaults

PAGES = {page.NAME: page for page in (defaults_report, few_rows, quality_page, uci)}


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


# By page: the label of a line that quotes the table, its task and method, and the decimals of its columns.
COLUMNS = ("accuracy", "nll", "ece", "auroc_noise")
QUOTED = {
    "README.md": [
        ("posterity, no options", "digits-lenet5", "ours", (2, 3, 3, 3)),
        ("plain", "digits-lenet5", "plain", (2, 3, 3, 3)),
        ("plain, with the optimiser of ours", "digits-lenet5", "plain-muon", (2, 3, 3, 3)),
        ("plain, temperature-scaled", "digits-lenet5", "scaled", (2, 3, 3, 3)),
        ("five plain networks", "digits-lenet5", "ensemble", (2, 3, 3, 3)),
    ],
    "docs/what_we_learnt.md": [
        ("MNIST, plain network, as long", "mnist-lenet5", "plain", (2, 4, 4)),
        ("MNIST, plain network, Muon", "mnist-lenet5", "plain-muon", (2, 4, 4)),
        ("MNIST, our defaults", "mnist-lenet5", "ours", (2, 4, 4)),
        ("CIFAR-10, plain network, as long", "cifar10-lenet5", "plain", (2, 3, 4)),
        ("CIFAR-10, plain network, Muon", "cifar10-lenet5", "plain-muon", (2, 3, 4)),
        ("CIFAR-10, our defaults", "cifar10-lenet5", "ours", (2, 3, 4)),
    ],
}


@pytest.mark.parametrize(("page", "label", "task", "method", "decimals"), [(k, *v) for k in QUOTED for v in QUOTED[k]])
def test_other_pages_quote_the_table_as_it_is(page, label, task, method, decimals):
    rows = json.loads(path("defaults").read_text(encoding="utf-8"))["rows"]
    own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
    assert len(own) >= 3
    cells = []
    for column, places in zip(COLUMNS, decimals, strict=False):
        share = column == "accuracy"
        text = defaults_report.mean_and_error([row[column] for row in own], 100 if share else 1, places)
        cells.append(f"{text} %" if share else text)
    line = " | ".join([label, *cells])
    assert f"| {line} |" in (ROOT / page).read_text(encoding="utf-8"), f"{page} should say: | {line} |"
