"""`posterity compare` and `posterity landscape` on stored runs."""

import pytest
from test_cli_app import check_usage_error

from posterity.experiments import Run, execute

BASE = {"model": "mlp", "hidden": (8,), "train_rows": 100, "val_fraction": 0.5, "epochs": 1, "optimizer": "sgd"}
PLACES = [(0.02, 0.5), (0.5, 0.1), (0.1, 0.9), (0.3, 0.6)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number, (lr, momentum) in enumerate(PLACES):
        run = Run(**BASE, lr=lr, optimizer_options={"momentum": momentum}, seed=number % 2)
        execute(run, folder / str(number), samples=2)
    return folder


def test_runs_are_compared(cli, runs, tmp_path):
    done = cli("compare", runs / "0", runs / "1", "--z", "nll", "--out", "c.png")
    assert done.code == 0, done.err
    assert "mean ± standard error" in done.out
    assert "difference to" in done.out
    assert done.err == "figure: c.png\n"
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_groups_as_json(cli, runs):
    found = cli("compare", runs, "--by", "seed", "--z", "val_accuracy", "--success", 0.0, "--json").json
    assert found["metric"] == "val_accuracy"
    assert [group["tried"] for group in found["groups"]] == [2, 2]
    assert found["groups"][0]["success_rate"] == 1.0
    assert found["differences"][0]["pairs"] == 0  # their rates are others
    single = cli("compare", runs / "0", runs / "1", "--json").json
    assert single["groups"][0]["sd"] is None
    assert single["differences"][0]["low"] is None


def test_a_landscape(cli, runs, tmp_path):
    flags = ("--x", "lr", "--y", "momentum", "--z", "nll", "--out", "l.png")
    done = cli("landscape", runs, *flags, "--curvature", 2, "--curvature", 9, "--line")
    assert done.code == 0, done.err
    assert "best of 4 places" in done.out
    assert (tmp_path / "l.png").stat().st_size > 10_000
    found = cli("landscape", runs, *flags, "--line", "--json").json
    assert found["places"] == 4
    assert (found["best"]["lr"], found["best"]["momentum"]) in PLACES
    panels = cli("landscape", runs, *flags, "--by", "seed", "--log-x", "--clip", 0, "--json").json
    assert [(panel["seed"], panel["places"]) for panel in panels] == [("0", 2), ("1", 2)]


def test_mistakes(cli, runs):
    flags = ("--x", "lr", "--y", "momentum")
    check_usage_error(cli("landscape", runs, *flags, "--z", "nlll"), "unknown column 'nlll'", "Did you mean 'nll'?")
    check_usage_error(cli("landscape", runs, *flags, "--z", "nll", "--clip", 0.6), "clip")
    check_usage_error(
        cli("landscape", runs, "--x", "lr", "--y", "epochs", "--z", "nll", "--line"), "over lr and momentum"
    )
    check_usage_error(cli("landscape", runs, *flags, "--z", "nll", "--where", "seed=7"), "there are 0, 1")
    check_usage_error(cli("compare", "nosuch"), "no runs in nosuch")
    check_usage_error(cli("compare", runs, "--by", "seeds"), "Did you mean 'seed'?")
    check_usage_error(cli("compare", runs, "--by", "seed", "--against", "3"), "unknown group")
