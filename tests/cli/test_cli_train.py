"""Train, evaluate, predict, replay: the commands on real data, in one process."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy import stats

from posterity import data
from posterity.experiments import Record, Run

CLASS_METRICS = {
    "accuracy", "nll", "expected_nll", "ece", "brier", "confidence", "entropy", "aleatoric", "epistemic",
}  # fmt: skip


def one_line(done, code, *parts):
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1, done.err
    for part in parts:
        assert str(part) in done.err


def read_csv(path):
    with path.open() as file:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def test_train_evaluate_predict_on_digits(train, cli, tmp_path):
    done = train("run", "--temperature", 0.1, "--json", epochs=12)
    assert done.code == 0
    assert done.json["test"].keys() == CLASS_METRICS
    assert done.json["test"]["accuracy"] > 0.9
    run = tmp_path / "run"
    names = {p.name for p in run.iterdir()}
    assert {"config.toml", "history.jsonl", "checkpoint", "summary.json", "figures"} <= names
    assert len((run / "history.jsonl").read_text().splitlines()) == 12
    assert {p.name for p in (run / "figures").iterdir()} >= {"training.png", "reliability.png", "confidence.png"}

    evaluated = cli("evaluate", "run", "--samples", 16, "--ood", "noise", "--json")
    assert evaluated.code == 0
    result = evaluated.json
    assert result["ood"].keys() == {"noise"}
    assert all(0 <= v <= 1 for k, v in result["ood"]["noise"].items() if k != "entropy")
    assert 0 <= result["ood"]["noise"]["entropy"] <= np.log(10) + 1e-6
    assert result["ood"]["noise"]["auroc_entropy"] > 0.5
    summary = json.loads((run / "summary.json").read_text())
    assert summary["evaluation"]["test"] == result["test"]
    assert summary["key"] == done.json["key"] == Run.read(run / "config.toml").key
    assert cli("evaluate", "run", "--samples", 16, "--ood", "noise", "--json").json == result
    assert "accuracy" in cli("evaluate", "run", "--samples", 2).out

    test = data.load_test("digits")
    np.savez(tmp_path / "images.npz", x=test.x.numpy())
    flat = test.x.flatten(1).numpy()
    header = ",".join(f"p{i}" for i in range(64))
    np.savetxt(tmp_path / "images.csv", flat, delimiter=",", header=header, comments="")
    np.savez(tmp_path / "bare.npz", test.x[:, 0].numpy())  # no channel, no name
    for source in ("images.npz", "images.csv", "bare.npz"):
        for kind in ("npz", "csv"):
            done = cli("predict", "run", source, "--out", f"{source}.{kind}", "--samples", 16, "--json")
            assert done.code == 0, done.err
            assert done.json["rows"] == 360
    arrays = np.load(tmp_path / "images.npz.npz")
    assert arrays["samples"].shape == (16, 360, 10)
    np.testing.assert_allclose(arrays["mean"], arrays["samples"].mean(0), rtol=1e-4, atol=1e-6)
    assert (arrays["label"] == test.y.numpy()).mean() == pytest.approx(result["test"]["accuracy"])
    for other in ("images.csv.npz", "bare.npz.npz"):
        np.testing.assert_allclose(arrays["mean"], np.load(tmp_path / other)["mean"], atol=1e-5)
    rows = read_csv(tmp_path / "images.npz.csv")
    assert list(rows[0]) == ["label", "confidence", "aleatoric", "epistemic", *(f"p_{k}" for k in range(10))]
    assert [row["label"] for row in rows] == arrays["label"].tolist()
    np.testing.assert_allclose([[row[f"p_{k}"] for k in range(10)] for row in rows], arrays["mean"], rtol=1e-5)
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]  # no half-written files


def test_regression_is_in_the_targets_own_units(cli, tmp_path):
    command = ("train", "--dataset", "diabetes", "--model", "mlp", "--hidden", "16", "--epochs", 30, "--lr", 0.01)
    done = cli(*command, "--noise", 0.7, "--out", "run", "--quiet", "--json")
    assert done.code == 0, done.err
    reported = cli("evaluate", "run", "--samples", 64, "--json").json["test"]
    test = data.load_test("diabetes")
    np.savez(tmp_path / "x.npz", x=test.x.numpy())
    for out in ("p.npz", "p.csv"):
        assert cli("predict", "run", "x.npz", "--out", out, "--samples", 64).code == 0
    y = test.y.numpy().astype(float)
    arrays = {k: v.astype(float) for k, v in np.load(tmp_path / "p.npz").items()}
    rmse = np.sqrt(np.mean((arrays["mean"] - y) ** 2))
    assert 40 < rmse < 75  # the targets' own sd is 77
    assert reported["rmse"] == pytest.approx(rmse, rel=1e-5)
    sd = np.sqrt(arrays["aleatoric"] + arrays["epistemic"])
    # One noise for all weight samples: the mixture of Gaussians by hand.
    mixture = stats.norm(arrays["samples"], arrays["aleatoric_sd"])
    shares = mixture.cdf(y).mean(0)
    assert reported["coverage_95"] == pytest.approx(np.mean(np.abs(shares - 0.5) < 0.475), abs=1e-6)
    assert reported["log_likelihood"] == pytest.approx(np.log(mixture.pdf(y).mean(0)).mean(), rel=1e-4)
    rows = read_csv(tmp_path / "p.csv")
    assert list(rows[0]) == ["mean", "sd", "aleatoric_sd", "epistemic_sd"]
    np.testing.assert_allclose([r["sd"] for r in rows], sd[:, 0], rtol=1e-5)
    one_line(cli("evaluate", "run", "--ood", "noise"), 2, "classification")


def test_a_config_replays_a_run(train, cli, tmp_path, checkpoint_bytes, records):
    options = ("--prior-scale", "0.7", "--hidden", "8,4", "--clip", "1", "--seed", 5, "--kl-decay", "0.5")
    options += ("--deterministic", "5.*", "--patience", 9, "--val-fraction", 0.1)
    assert train("first", *options, epochs=2).code == 0
    config = tmp_path / "first" / "config.toml"
    assert cli("train", "--config", config, "--out", "again", "--quiet").code == 0
    assert (tmp_path / "again" / "config.toml").read_bytes() == config.read_bytes()
    assert checkpoint_bytes(tmp_path / "again") == checkpoint_bytes(tmp_path / "first")
    assert records(tmp_path / "again" / "history.jsonl") == records(tmp_path / "first" / "history.jsonl")
    assert cli("train", "--config", config, "--seed", 6, "--out", "other", "--quiet").code == 0
    assert Run.read(tmp_path / "other" / "config.toml").seed == 6  # a flag goes before the file
    assert checkpoint_bytes(tmp_path / "other") != checkpoint_bytes(tmp_path / "first")


def test_resume_takes_the_same_settings_and_no_others(train, cli, tmp_path, monkeypatch):
    monkeypatch.setattr("posterity.report.write_figures", lambda record: [])  # slow, and not looked at here
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(60, 3)), y=np.arange(60) % 2)
    options = (
        "--dataset", "./d.npz", "--hidden", "8", "--prior-scale", 1, "--optimizer-options", "betas=0.8:0.9,eps=1e-6",
        "--deterministic", "3.*", "--temperature", "per-weight", "--penalty-factor", 1,
        "--optimizer", "adam",
    )  # fmt: skip
    assert train("run", *options).code == 0
    config = (tmp_path / "run" / "config.toml").read_bytes()
    for again in (options, (*options, "--optimizer-options", "eps=1e-6,betas=0.8:0.9"), options[:2]):
        assert cli("train", "--out", "run", "--resume", "--quiet", *again).code == 0
    for flag, other in (
        ("--lr", 0.5), ("--hidden", 9), ("--dataset", "digits"), ("--optimizer-options", "eps=1e-6"),
        ("--temperature", 0.1), ("--seed", 1), ("--deterministic", "1.*"), ("--posterior", "tied"),
    ):  # fmt: skip
        refused = cli("train", "--out", "run", "--resume", flag, other)
        one_line(refused, 2, f"leave out {flag}\n")
    one_line(cli("train", "--out", "run", "--resume", "--lr", "0.5", "--hidden", "9"), 2, "--lr", "--hidden")
    one_line(cli("train", "--out", "run", "--resume", "--config", "run/config.toml"), 2, "--config")
    one_line(cli("train", "--out", "run", "--resume", "--epochs", 0), 2, "epochs")
    one_line(cli("train", "--out", "run", "--resume", "--overwrite"), 2, "not both")
    assert (tmp_path / "run" / "config.toml").read_bytes() == config


@pytest.mark.filterwarnings("default::posterity.training.ProlongedWarning")
def test_a_run_is_prolonged_with_a_word_on_what_that_does(train, cli, tmp_path):
    assert train("run", epochs=2).code == 0
    done = cli("train", "--out", "run", "--resume", "--epochs", 4, "--quiet", "--json")
    assert done.code == 0
    assert "warning: prolonged from 2 to 4 epochs, of which 2 are done" in done.err
    record = Record.read("run")
    assert (record.run.epochs, len(record.history), record.finished) == (4, 4, True)
    assert done.json["key"] == record.run.key == record.summary["key"]
    one_line(cli("train", "--out", "run", "--resume", "--epochs", 3), 2, "epochs is 4 there, 3 here")


def test_the_binary_task(cli, tmp_path):
    done = cli("train", "--dataset", "and", "--model", "mlp", "--hidden", "4", "--val-fraction", 0, "--epochs", 3,
               "--out", "run", "--quiet", "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert 0 <= done.json["test"]["accuracy"] <= 1
    (tmp_path / "x.csv").write_text("a,b\n0,1\n1,1\n")
    assert cli("predict", "run", "x.csv", "--out", "p.csv").code == 0
    rows = read_csv(tmp_path / "p.csv")
    assert rows[0]["p_0"] + rows[0]["p_1"] == pytest.approx(1, abs=1e-5)
