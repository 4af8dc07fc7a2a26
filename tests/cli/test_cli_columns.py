import csv

import numpy as np


def write(path, names, table):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *table.tolist()])


def test_columns_are_found_by_name(cli, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    table = np.column_stack([x, 3 * x[:, 0] - x[:, 1]])
    write(tmp_path / "train.csv", ["a", "b", "y"], table)
    run = tmp_path / "run"
    options = ("--model", "mlp", "--hidden", "8", "--epochs", "2", "--quiet")
    assert cli("train", "--dataset", tmp_path / "train.csv", *options, "--out", run).code == 0
    write(tmp_path / "same.csv", ["a", "b"], x)
    write(tmp_path / "other.csv", ["y", "b", "a"], table[:, ::-1])
    written = []
    for name in ("same", "other"):
        done = cli("predict", run, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-out.csv")
        assert done.code == 0, done.err
        written.append((tmp_path / f"{name}-out.csv").read_text())
    assert written[0] == written[1]
    write(tmp_path / "less.csv", ["a"], x[:, :1])
    done = cli("predict", run, tmp_path / "less.csv", "--out", tmp_path / "out.csv")
    assert done.code == 2
    assert "lacks the column b" in done.err
