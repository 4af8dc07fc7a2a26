"""Users' own files as data sets: what can be trained on, and what is refused with one line."""

from __future__ import annotations

import numpy as np
import pytest

from posterity.experiments import load_run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
LABELS = (X.sum(1) > 0).astype(int)


@pytest.fixture
def fit_file(cli):
    def run(path, *options):
        return cli("train", "--dataset", path, "--model", "mlp", "--hidden", "8", "--epochs", 2, "--quiet", "--json",
                   "--out", "run", *options)  # fmt: skip

    return run


def write_csv(path, columns):
    table = np.column_stack(list(columns.values()))
    np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="", fmt="%.6g")


def test_a_csv_with_classes(fit_file, cli, tmp_path):
    write_csv(tmp_path / "d.csv", {"a": X[:, 0], "class": LABELS, "b": X[:, 1], "c": X[:, 2]})
    done = fit_file("d.csv", "--target", "class")
    assert done.code == 0, done.err
    trained = load_run(tmp_path / "run")
    assert (trained.task, trained.num_classes, trained.input_shape) == ("classification", 2, (3,))
    assert cli("evaluate", "run", "--json").json["test"].keys() == done.json["test"].keys()
    assert cli("predict", "run", "d.csv", "--target", "class", "--out", "p.csv").code == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 81


def test_a_csv_with_quantities(fit_file, tmp_path):
    write_csv(tmp_path / "d.csv", {"a": X[:, 0], "b": X[:, 1], "y": 1000 + 50 * X[:, 0]})
    done = fit_file("d.csv")
    assert done.code == 0, done.err
    assert 5 < done.json["test"]["rmse"] < 200  # in units of y
    assert load_run(tmp_path / "run").task == "regression"


def test_an_npz_with_its_own_test_data(fit_file, tmp_path):
    np.savez(tmp_path / "d.npz", x=X[:60], y=LABELS[:60], x_test=X[60:], y_test=LABELS[60:])
    done = fit_file("d.npz")
    assert done.code == 0, done.err
    assert (done.json["test"]["accuracy"] * 20) == pytest.approx(round(done.json["test"]["accuracy"] * 20), abs=1e-6)


def test_an_npz_with_two_targets(fit_file, cli, tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=np.stack([X[:, 0], 100 * X[:, 1]], 1))
    done = fit_file("d.npz", "--noise", "input")
    assert done.code == 0, done.err
    np.savez(tmp_path / "x.npz", x=X)
    assert cli("predict", "run", "x.npz", "--out", "p.csv").code == 0
    header = (tmp_path / "p.csv").read_text().splitlines()[0].split(",")
    assert header[:4] == ["mean_0", "mean_1", "sd_0", "sd_1"]
    assert len(header) == 8


def test_a_file_that_is_gone_or_has_changed(fit_file, cli, tmp_path):
    write_csv(tmp_path / "d.csv", {"a": X[:, 0], "y": LABELS})
    assert fit_file("d.csv").code == 0
    write_csv(tmp_path / "d.csv", {"a": X[:, 0], "b": X[:, 1], "y": LABELS})
    done = cli("evaluate", "run")
    assert done.code == 2
    assert "(2,)" in done.err
    (tmp_path / "d.csv").unlink()
    done = cli("evaluate", "run")
    assert done.code == 2
    assert "d.csv" in done.err


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "empty"),
        ("a,b,y\n", "no rows"),
        ("a,b,y\n" + "1,2,0\ninf,2,1\n" * 10, "infinity"),
        ("a,b,y\n" + "1,,0\n1,,1\n" * 10, "column 'b'"),
        ("a,b,y\n" + "1,2,0\n1,2\n" * 10, "2 cells"),
        ("a,b,y\n" + "1,2,1\n1,2,2\n1,2,dog\n" * 10, "'dog'"),
        ("a,b,y\n" + "1,2024-01-31,1\n1,2024-02-01,0\n" * 10, "weekday"),
        ("a,b,y\n" + "1,2,1\n1,2,2\n" * 10, "classes or quantities"),
        ("1,2,0\n" * 10, "header"),
        ("y\n" + "0\n1\n" * 10, "single column"),
        ("a,a,y\n" + "1,2,0\n1,2,1\n" * 10, "more than one column"),
        ("a,y\n1,0\n2,1\n", "empty"),
    ],
)
def test_a_bad_csv(fit_file, tmp_path, content, part):
    (tmp_path / "d.csv").write_text(content)
    done = fit_file("d.csv")
    assert done.code == 2
    assert part in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"x": X}, "lacks the array y"),
        ({"x": X, "y": LABELS[:70]}, "80 rows"),
        ({"x": X, "y": LABELS - 1}, "label -1"),
        ({"x": X, "y": LABELS * 1000}, "1001 classes"),
        ({"x": np.where(X > 2, np.inf, X), "y": LABELS}, "infinite"),
        ({"x": X, "y": LABELS, "x_test": X}, "y_test"),
        ({"x": X, "y": LABELS, "x_test": X[:, :2], "y_test": LABELS}, "must agree"),
        ({"x": X[:0], "y": LABELS[:0]}, "no data"),
    ],
)
def test_a_bad_npz(fit_file, tmp_path, arrays, part):
    np.savez(tmp_path / "d.npz", **arrays)
    done = fit_file("d.npz")
    assert done.code == 2
    assert part in done.err
    assert done.err.count("\n") == 1


def test_a_target_that_is_not_there(fit_file, tmp_path):
    write_csv(tmp_path / "d.csv", {"a": X[:, 0], "y": LABELS})
    done = fit_file("d.csv", "--target", "z")
    assert done.code == 2
    assert "'z'" in done.err
    assert "a, y" in done.err
