"""`posterity uci`: standard splits, resumed, beside published results."""

from __future__ import annotations

import json

import pytest

from posterity.data.uci import uci_file

HERE = pytest.mark.skipif(uci_file("uci-boston") is None, reason="the UCI sets are not on this machine")
QUICK = ("--epochs", 1, "--hidden", 4)


@HERE
def test_splits_are_run_once_and_stand_beside_what_was_published(cli, tmp_path):
    first = cli("uci", "boston", "--splits", 2, *QUICK)
    assert first.code == 0
    assert "split 2/2" in first.err
    assert "-2.40" in first.out
    assert "±" in first.out
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")}
    again = cli("uci", "boston", "--splits", 3, *QUICK, "--json")
    found = json.loads(again.out)
    assert found["splits"] == len(found["scores"]["rmse"]) == 3
    assert found["published"] == [2.9, -2.4]
    assert {p: p.stat().st_mtime_ns for p in kept} == kept  # finished splits are only read


@HERE
def test_all_rows_of_a_split_are_trained_on(cli, tmp_path):
    cli("uci", "uci-boston", "--splits", 1, *QUICK)
    summary = json.loads(next(tmp_path.rglob("summary.json")).read_text(encoding="utf-8"))
    assert summary["num_data"] == 455


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bostn",), "Did you mean 'boston'"),
        (("protein", "--splits", 6), "has 5 standard splits"),
        (("boston", "--split", 3), "leave out split"),
        (("boston", "--dataset", "digits"), "leave out dataset"),
    ],
)
def test_what_cannot_be_is_said(cli, arguments, said):
    outcome = cli("uci", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
