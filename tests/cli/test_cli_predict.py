"""`posterity predict`: columns by name, and mistakes."""

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


def one_line(done, code, *parts):
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1, done.err
    for part in parts:
        assert str(part) in done.err


def test_predict_mistakes(train, cli, tmp_path):
    assert train("run").code == 0
    good = np.zeros((3, 64), dtype=np.float32)
    np.savez(tmp_path / "good.npz", x=good)
    np.savez(tmp_path / "wide.npz", x=np.zeros((3, 65)))
    np.savez(tmp_path / "nan.npz", x=np.where(np.arange(64) == 7, np.nan, good))
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 64)))
    np.savez(tmp_path / "text.npz", x=np.array(["a"]))
    np.savez(tmp_path / "object.npz", x=np.array([{}], dtype=object))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no archive")
    (tmp_path / "gap.csv").write_text("a,b\n1,\n")
    for source, code, part in (
        ("wide.npz", 2, "(65,)"), ("nan.npz", 2, "NaN"), ("none.npz", 2, "no data"), ("text.npz", 2, "numbers"),
        ("nosuch.npz", 2, "nosuch.npz"), ("empty.csv", 2, "empty"), ("gap.csv", 2, "'b'"), ("good.txt", 2, "good.txt"),
        ("broken.npz", 4, "broken.npz"), ("object.npz", 4, "object.npz"), (".", 2, "."),
    ):  # fmt: skip
        one_line(cli("predict", "run", source, "--out", "out.csv"), code, part)
        assert not (tmp_path / "out.csv").exists()
    one_line(cli("predict", "run", "good.npz", "--out", "nosuch/out.csv"), 2, "nosuch/out.csv")
    one_line(cli("predict", "run", "good.npz", "--out", "out.txt"), 2, ".csv or .npz")
    (tmp_path / "folder.csv").mkdir()
    one_line(cli("predict", "run", "good.npz", "--out", "folder.csv"), 2, "folder.csv")
    one_line(cli("predict", "nosuch", "good.npz", "--out", "out.csv"), 2, "nosuch")
    one_line(cli("evaluate", "nosuch"), 2, "there is no run")
    one_line(cli("evaluate", "run", "--ood", "gap"), 2, "gap")
    one_line(cli("evaluate", "run", "--ood", "nois"), 2, "nois")
