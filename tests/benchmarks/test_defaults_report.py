"""The counting of `defaults.py table`, by hand on made-up cells."""

import json
import math
from fractions import Fraction

import pytest

import defaults_report as report
import defaults_rules
from defaults_verdicts import Cells, compared, count, difference, not_worse, verdicts

SEEDS = (0, 1, 2)
REAL, CLASSES = "regression", "classification"


def task(kind, **more):
    facts = {"kind": kind, "network": "mlp 5", "epochs": 7, "splits": False, "seeds": list(SEEDS), "other": False}
    return facts | more


def rows(task, method, **columns):
    """A row for each seed; a column is a number, or one for each seed."""
    made = []
    for seed in SEEDS:
        values = {name: v if isinstance(v, float) else v[seed] for name, v in columns.items()}
        made.append({"task": task, "method": method, "seed": seed, "epochs": 7, "seconds": 1.0, **values})
    return made


def failed(task, method, seed):
    return {"task": task, "method": method, "seed": seed, "epochs": 7, "failed": "nan"}


def pair(column, ours, plain, kind=CLASSES):
    return Cells({"a": task(kind)}, [*rows("a", "ours", **{column: ours}), *rows("a", "plain", **{column: plain})])


def by_claim(cells):
    return {verdict.claim: verdict for verdict in verdicts(cells)}


@pytest.mark.parametrize(
    ("column", "ours", "plain", "expected"),
    [
        ("nll", 0.1, 0.2, 1),
        ("nll", 0.2, 0.1, -1),
        ("accuracy", 0.9, 0.8, 1),
        ("log_likelihood", -2.0, -1.0, -1),
        ("auroc_noise", 0.6, 0.5, 1),
        ("auroc_noise", 1.0, 1.0, 0),
        ("nll", (0.0, 0.0, 0.6), 0.1, -1),  # by means, not by seeds
    ],
)
def test_comparisons_know_what_is_better(column, ours, plain, expected):
    assert compared(pair(column, ours, plain), "a", column, "ours", "plain") == expected


def test_a_difference_is_paired():
    """d = 0.1, 0.2, 0.3: mean 0.2, sd 0.1. The seeds themselves are apart by far more."""
    cells = pair("rmse", (1.1, 5.2, 9.3), (1.0, 5.0, 9.0), REAL)
    assert difference(cells, "a", "rmse") == pytest.approx((0.2, 0.1 / math.sqrt(3)))
    assert not_worse(cells, "a") == -1


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ((0.8, 1.0, 0.8), 1),  # d = 0.1, -0.1, 0.1: mean 0.033, standard error 0.067
        ((0.8, 0.9, 0.8), -1),  # d = 0.1, 0, 0.1: mean 0.067, standard error 0.033
        ((0.9, 0.9, 0.9), 1),  # none
        ((0.95, 0.9, 0.9), 1),
    ],
)
def test_not_worse_is_within_one_standard_error(ours, expected):
    assert not_worse(pair("accuracy", ours, 0.9), "a") == expected


@pytest.mark.parametrize(
    ("share", "strictly", "won", "lost", "missing", "expected"),
    [
        ("9/10", False, 9, 1, 0, "met"),
        ("9/10", False, 8, 2, 0, "not met"),
        ("9/10", False, 9, 0, 1, "met"),  # whatever the last one will be
        ("9/10", False, 8, 1, 1, "open"),
        ("9/10", False, 8, 2, 5, "not met"),  # of 15 it takes 14, and 13 are the most that there can be
        ("9/10", False, 0, 0, 3, "open"),
        ("8/10", False, 6, 1, 0, "met"),
        ("8/10", False, 5, 2, 0, "not met"),  # of 7 it takes 6
        ("1", False, 7, 0, 1, "open"),
        ("1", False, 6, 1, 1, "not met"),
        ("1/2", True, 4, 4, 0, "not met"),  # half is not more than half
        ("1/2", True, 5, 4, 0, "met"),
    ],
)
def test_shares_are_of_all_comparisons(share, strictly, won, lost, missing, expected):
    found = [1] * won + [-1] * lost + [None] * missing
    verdict = count("c", Fraction(share), dict(zip(map(str, range(99)), found, strict=False)), strictly=strictly)
    assert verdict.total == won + lost + missing
    assert verdict.outcome == expected


def test_equal_is_not_won_and_said():
    verdict = count("AUROC", Fraction(1, 2), {"a": 1, "b": 0, "c": -1, "d": None}, strictly=True)
    assert verdict.line() == "**not met**: AUROC: 1 of 4 (3 needed); not on c; equal on b; missing d"


def test_a_missing_seed_makes_a_comparison_missing():
    cells = pair("nll", 0.1, 0.2)
    fewer = Cells(cells.tasks, list(cells.rows)[1:])
    assert compared(fewer, "a", "nll", "ours", "plain") is None
    assert not_worse(fewer, "a") is None
    assert by_claim(fewer)["nll lower than plain's"].missing == ("a",)


def test_one_seed_has_no_standard_error():
    cells = Cells({"a": task(CLASSES, seeds=[0])}, pair("accuracy", 0.9, 0.8).rows)
    assert not_worse(cells, "a") is None
    assert compared(cells, "a", "accuracy", "ours", "plain") == 1


@pytest.mark.parametrize(("diverged", "expected"), [(("ours",), -1), (("plain",), 1), (("ours", "plain"), -1)])
def test_who_diverges_has_lost(diverged, expected):
    cells = pair("accuracy", 0.9, 0.9)
    kept = [row for row in cells.rows if not (row["method"] in diverged and row["seed"] == 1)]
    found = Cells(cells.tasks, kept + [failed("a", method, 1) for method in diverged])
    assert compared(found, "a", "accuracy", "ours", "plain") == expected
    assert not_worse(found, "a") == expected


@pytest.fixture
def stored():
    """A classification with other data that ours wins but for noise, and a regression that it loses."""
    tasks = {"mnist-lenet5": task(CLASSES, other=True), "uci-wine": task(REAL, splits=True)}
    tasks["uci-wine"]["methods"] = [
        "plain",
        "map",
        "dropout",
        "scaled",
        "ivon-opt",
        "laplace-torch",
        "ensemble",
        "ours",
    ]
    good = {"accuracy": 0.992, "nll": 0.0229, "ece": 0.003, "auroc_noise": 0.9, "auroc_other": 0.99}
    poor = {"accuracy": 0.990, "nll": 0.03, "ece": 0.004, "auroc_noise": 0.95, "auroc_other": 0.98}
    cells = [
        *rows("mnist-lenet5", "plain", **poor),
        *rows("mnist-lenet5", "ours", **good),
        *rows("uci-wine", "plain", rmse=(0.6, 0.62, 0.64), log_likelihood=-0.9, coverage=0.9, auroc_noise=0.5),
        *rows("uci-wine", "map", rmse=0.7, log_likelihood=-1.5, coverage=0.9, auroc_noise=0.5)[:2],
        *rows("uci-wine", "ours", rmse=0.7, log_likelihood=-1.0, coverage=(0.9, 0.97, 0.99), auroc_noise=0.8),
    ]
    methods = {"plain": "p", "map": "m", "ours": "o", "ours-laplace": "l"}
    known = {"versions": {"torch": "1"}, "tasks": tasks, "methods": methods, "left_out": {"ours-laplace": "none"}}
    return {**defaults_rules.present_defaults(), **known, "rows": cells}


def test_the_verdicts_by_hand(stored):
    found = by_claim(Cells(stored["tasks"], stored["rows"]))
    outcomes = {claim: (len(v.won), v.total, v.outcome) for claim, v in found.items()}
    assert outcomes == {
        "accuracy or RMSE not worse than plain's by more than a standard error": (1, 2, "not met"),
        "nll lower than plain's": (1, 2, "not met"),
        "ECE lower than plain's": (1, 1, "met"),
        "AUROC higher than plain's, all": (2, 3, "not met"),
        "AUROC higher than plain's, classification alone": (1, 2, "not met"),
        "AUROC higher than plain's, regression alone": (1, 1, "met"),
        "nll lower than that of plain-muon": (0, 1, "open"),  # it is for classes alone
        **{f"nll lower than that of {m}": (0, 2, "open") for m in ("map", "dropout", "scaled", "ivon-opt")},
        "nll lower than that of laplace-torch": (0, 2, "open"),
        "coverage of 90 % intervals between 85 and 95 %": (0, 1, "not met"),  # 0.953
        "targets of mnist-lenet5": (2, 2, "met"),
        "for information, nll of ours-ensemble lower than that of ensemble": (0, 2, ""),
        "for information, nll of ours-laplace lower than that of laplace-torch": (0, 2, ""),
    }


def test_the_tables_by_hand(stored):
    page = report.page(stored)
    assert "## mnist-lenet5: mlp 5, 7 epochs, seeds 0 1 2" in page
    assert "| plain | **0.620 ± 0.012** | **-0.900 ± 0.000** | **90.0 ± 0.0** | 0.5000 ± 0.0000 | 1.0 ± 0.0 |" in page
    assert "| map (1 of 3 missing) | 0.700 ± 0.000 | -1.500 ± 0.000 |" in page
    assert "| map | missing | missing | missing | missing | missing | missing |" in page
    assert "| *dropout, published* | 0.62 | -0.93 |  |  |  |" in page
    assert "- **ours-laplace** is left out: none" in page
    assert "| ours-laplace" not in page


def test_it_is_said_where_ours_is_worse(stored):
    cells = Cells(stored["tasks"], stored["rows"])
    expected = "AUROC, noise than plain's (0.9000 ± 0.0000 against 0.9500 ± 0.0000)"
    assert report.worse(cells, "mnist-lenet5") == expected
    assert report.worse(cells, "uci-wine") == (
        "RMSE than plain's (0.700 ± 0.000 against 0.620 ± 0.012); "
        "log-likelihood than plain's (-1.000 ± 0.000 against -0.900 ± 0.000); coverage (95.3 ± 2.7 %)"
    )


def test_how_much_longer_ours_takes_is_said(stored):
    """By medians: a training that was interrupted does not count."""
    ours = [row for row in stored["rows"] if (row["task"], row["method"]) == ("uci-wine", "ours")]
    for row, seconds in zip(ours, (2.5, 2.4, 90.0), strict=True):
        row["seconds"] = seconds
    assert "- a training takes, in those of plain: mnist-lenet5 1.0, uci-wine 2.5\n" in report.page(stored)
    stored["rows"].remove(ours[0])
    assert "in those of plain: mnist-lenet5 1.0\n" in report.page(stored)


def test_files_are_written_and_read_again(stored, tmp_path):
    made = report.write(stored, tmp_path)
    again = json.loads((tmp_path / "defaults.json").read_text(encoding="utf-8"))
    assert again == stored
    assert (tmp_path / "defaults.md").read_text(encoding="utf-8") == made == report.page(again)
    assert defaults_rules.changed_defaults(again) == {}


def test_changed_defaults_are_found(stored):
    older = {name: value for name, value in stored["defaults"].items() if name != "warmup"}  # which was added since
    older |= {"rho": -3.0, "was": 1}
    now = stored["defaults"]["rho"]
    expected = {"rho": (-3.0, now), "was": (1, "gone"), "effective": ({}, stored["effective"])}
    assert defaults_rules.changed_defaults({**stored, "defaults": older, "effective": {}}) == expected
    assert set(defaults_rules.changed_defaults({**stored, "schema": 0})) == {"schema"}


def test_a_cell_is_stored_in_short():
    cell = {"task": "a", "method": "ours", "seed": 0, "epochs": 7, "batch": 100, "chosen": {}, "seconds": 1.23456789}
    head = {"task": "a", "method": "ours", "seed": 0, "epochs": 7}
    assert report.row({**cell, "scores": {"nll": 1 / 3}}) == {**head, "nll": 0.333333, "seconds": 1.23457}
    assert report.row({**cell, "failed": "nan"}) == {**head, "failed": "nan"}
    assert report.versions_of([{"versions": {"torch": "2"}}, {"versions": {"torch": "1"}}]) == {"torch": "1, 2"}
