"""A raw table through the command line: text, gaps, `;`, gzip, and classes by their names in every output."""

import csv
import gzip
import json

import numpy as np
import pytest

from posterity.experiments import load_run

RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=90)
ROWS = [
    f"{size:.3f};{'' if k % 9 == 0 else ['Ulm', 'Bonn', 'Kiel'][k % 3]};{k % 30};{'large' if size > 0 else 'small'}"
    for k, size in enumerate(SIZE)
]
TEXT = "size;town;street;kind\n" + "\n".join(ROWS).replace(".", ",") + "\n"
TRAIN = ("--hidden", "8", "--epochs", "30", "--lr", "0.05", "--embedded", "street", "--quiet", "--out", "run")


@pytest.fixture
def homes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "homes.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "new.csv").write_text("street,more,town,size\n1,,Ulm,1.5\n99,,elsewhere,-1.5\n3,,,\n")
    return tmp_path


def test_a_raw_table_from_training_to_prediction(homes, cli):
    done = cli("train", "--dataset", "homes.csv.gz", *TRAIN, "--model", "mlp")
    assert done.code == 0, done.err
    assert "large" in done.out
    assert "small" in done.out
    trained = load_run("run")
    assert trained.classes == ("large", "small")
    assert trained.columns.features == ["size", "town=Bonn", "town=Kiel", "town=Ulm", "town=(missing)", "street"]
    assert trained.columns.codes == (31,)

    found = json.loads(cli("evaluate", "run", "--json").out)
    assert found["test"]["accuracy"] > 0.7
    assert found["by_class"].keys() == {"large", "small"}
    assert sum(each["rows"] for each in found["by_class"].values()) == 18
    assert "small" in cli("evaluate", "run").out

    done = cli("predict", "run", "new.csv", "--out", "p.csv", "--json")
    assert json.loads(done.out)["classes"] == ["large", "small"]
    with (homes / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows[:2]] == ["large", "small"]
    assert list(rows[0])[-2:] == ["p_large", "p_small"]
    assert all(float(row["p_large"]) + float(row["p_small"]) == pytest.approx(1) for row in rows)
    assert cli("predict", "run", "new.csv", "--out", "p.npz").code == 0
    assert np.load(homes / "p.npz")["classes"].tolist() == ["large", "small"]

    frame = {"size": [1.5], "town": ["Ulm"], "street": [1]}
    assert trained.predict(frame, seed=0).mean[0, 0].item() == pytest.approx(float(rows[0]["p_large"]), abs=1e-6)


def test_a_table_that_lacks_a_column_is_told(homes, cli):
    assert cli("train", "--dataset", "homes.csv.gz", *TRAIN[:2], "--epochs", "1", "--quiet", "--out", "run").code == 0
    (homes / "less.csv").write_text("size,street\n1,2\n")
    done = cli("predict", "run", "less.csv", "--out", "p.csv")
    assert done.code == 2
    assert "lacks the column town" in done.err
