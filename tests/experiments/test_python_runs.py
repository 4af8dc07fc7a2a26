"""A run that `fit` made is used as one from the command line: evaluated, predicted from, loaded."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Record, Run, evaluate_run, execute

SOURCE = """
from torch import nn

def network():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
"""


def network():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))


@pytest.fixture
def fitted(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, (80, 2))
    y = 1000 + 30 * x[:, 0]
    net = pt.bayesian(network(), seed=0)
    pt.fit(net, (x, y), epochs=4, standardise=True, average="swa", out=tmp_path / "run")
    return net, x, y, tmp_path / "run"


def test_is_loaded_with_its_module(fitted):
    net, x, y, folder = fitted
    trained = pt.load_run(folder, network())
    assert torch.equal(trained.predict(x, seed=0).mean, net.predict(x, seed=0).mean)
    assert torch.equal(trained.network.predict(x, seed=0).mean, net.predict(x, seed=0).mean)
    assert trained.average().predict(x).mean.mean() == pytest.approx(y.mean(), rel=0.5)
    with pytest.raises(UsageError, match=r"torch.nn.modules.container:Sequential.*model=.*--module"):
        pt.load_run(folder)
    with pytest.raises(UsageError, match="the saved network has weights"):
        pt.load_run(folder, nn.Linear(2, 1))


def test_is_evaluated(fitted):
    _, x, y, folder = fitted
    with pytest.raises(UsageError, match="--data FILE"):
        evaluate_run(folder, model=network())
    record = evaluate_run(folder, model=network(), test=pt.Dataset.from_arrays(x, y))
    assert record.test["rmse"] > 0
    assert Record.read(folder).finished
    assert len(record.history) == 4
    assert record.run.epochs == 4


def test_from_the_command_line(fitted, tmp_path):
    net, x, y, folder = fitted
    (tmp_path / "mine.py").write_text(SOURCE)
    np.savez(tmp_path / "test.npz", x=x, y=y)

    def posterity(*words, ok=True):
        done = subprocess.run(
            [sys.executable, "-m", "posterity", *map(str, words)],
            cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, done.stderr
        return done

    said = posterity("predict", folder, "test.npz", "--out", "p.npz", ok=False).stderr
    assert "--module package.module:name" in said
    posterity("predict", folder, "test.npz", "--out", "p.npz", "--module", "mine:network")
    np.testing.assert_allclose(np.load(tmp_path / "p.npz")["mean"], net.predict(x, seed=0).mean.numpy(), rtol=1e-5)
    words = ("--module", "mine:network", "--data", "test.npz", "--json")
    assert json.loads(posterity("evaluate", folder, *words).stdout)["test"]["rmse"] > 0
    assert "resume=True" in posterity("train", "--out", folder, "--resume", "--epochs", 9, ok=False).stderr


def test_a_commands_network_takes_raw_inputs_too(tmp_path):
    execute(Run.of(dataset="diabetes", epochs=20), tmp_path / "run")
    trained = pt.load_run(tmp_path / "run")
    x = pt.data.load_test("diabetes").x
    assert torch.equal(trained.predict(x, seed=0).mean, trained.network.predict(x, seed=0).mean)
    assert trained.predict(x).mean.mean() == pytest.approx(150, rel=0.3)
