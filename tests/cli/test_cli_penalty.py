"""`posterity penalty`: the factors of source 004, verdicts, and the figure."""

import math

import pytest


def test_help_has_an_example(cli):
    assert "Example: posterity penalty" in " ".join(cli("penalty", "--help").out.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "d", "factor"),
    [("l2", 1, 200), ("l1", 1, math.sqrt(800)), ("group_lasso_rows", 25, math.sqrt(26 * 400))],
)
def test_point_networks(cli, name, d, factor, tmp_path):
    done = cli("penalty", name, "--inputs", 400, "--group-size", d, "--out", "a/figure.png", "--json")
    assert done.code == 0, done.err
    assert done.json["factor"] == pytest.approx(factor)
    assert done.json["sd"] == pytest.approx(0.05)
    assert done.json["alone"]["is_kl"]
    assert (tmp_path / "a" / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_mean_field_networks(cli, name):
    done = cli("penalty", name, "--family", "gaussian", "--out", "figure.png")
    assert done.code == 0, done.err
    assert "not a KL: the penalty of the mean alone" in done.out
    assert " a KL: its expectation minus the entropy" in done.out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("l3",), "Did you mean"),
        (("l1", "--group-size", 3), "group size is 1"),
        (("l1", "--family", "cauchy"), "unknown family"),
        (("group_lasso_rows", "--group-size", 3, "--family", "gaussian"), "one weight"),
    ],
)
def test_mistakes(cli, arguments, part):
    done = cli("penalty", *arguments)
    assert (done.code, done.out) == (2, "")
    assert part in done.err
