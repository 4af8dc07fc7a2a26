"""A training ends with one line that says what was used and why."""

from __future__ import annotations

import io
import re

import pytest
import torch
from rich.console import Console
from torch import nn

import posterity as pt
from posterity.training import Settings, Training, plan
from posterity.training.progress import ProgressDisplay
from posterity.training.settings import LEAST_EPOCHS, LEAST_STEPS, SMALL_EPOCHS, SMALL_STEPS

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))


def lines(y, **given):
    """What is printed of a training of two epochs."""
    of_network = {name: given.pop(name) for name in ("posterior", "rho") if name in given}
    net = pt.bayesian(nn.Linear(3, 1 if y.is_floating_point() else 2), seed=0, **of_network)
    training = Training(net, plan(net, (X[: len(y)], y), None, Settings(**{"epochs": 2, **given})))
    display = ProgressDisplay(Console(file=io.StringIO(), width=400))
    training.callbacks.append(display)
    while not training.stopped:
        for index in training.batches:
            training.train_step(index)
        training.end_epoch()
    display.on_end(training)
    return display.console.file.getvalue().splitlines()


def test_of_classes():
    said = lines((X[:, 0] > 0).long(), rho=-7.0)
    assert said[0].startswith("epoch 1/2  training: nll ")
    assert "kl" not in said[0]
    last = next(line for line in said if line.startswith("trained"))
    assert "mean-field posterior over 8 weights on 60 data" in last
    assert "muon, rate 0.02 (0.1 for the standard deviations), cosine" in last
    assert re.search(r"temperature 0\.0\d+, since a KL of ", last)
    assert " nats a datum drowns the data" in last
    assert "times the standard deviations there are" in last
    assert any(line.startswith("warning: the standard deviations have not arrived") for line in said)


def test_of_a_regression_and_of_a_point():
    last = next(line for line in lines(X[:, :1], temperature=1.0) if line.startswith("trained"))
    assert "; temperature 1;" in last
    assert "noise" in last
    said = lines((X[:, 0] > 0).long(), posterior="point", temperature=0.0)
    assert not any("kl" in line for line in said)
    assert any("no uncertainty of the weights" in line for line in said)


@pytest.mark.parametrize(("rows", "end"), [
    (12, r"temperature [\d.e-]+ in the end, by what data left out would show; 0\.01 at first, so that no hidden unit"),
    (60, r"temperature 0\.1 in the end; 0\.00267 at first, so that no hidden unit"),  # many data for a weight
])  # fmt: skip
def test_of_a_regression_that_warms(rows, end):
    last = next(line for line in lines(X[:rows, :1], epochs=6) if line.startswith("trained"))
    assert re.search(end, last)


@pytest.mark.parametrize(("rows", "batch_size", "epochs"), [(60_000, 100, 20), (100, 100, 6000), (455, 100, 1200)])
def test_small_data_are_trained_on_for_longer(rows, batch_size, epochs):
    """20 epochs, or as many as make 6000 steps; of small regressions 100, or 12000 steps."""
    assert (LEAST_EPOCHS, LEAST_STEPS, SMALL_EPOCHS, SMALL_STEPS) == (20, 6000, 100, 12000)
    assert Settings(batch_size=batch_size).num_epochs(rows) == epochs
    assert Settings(batch_size=batch_size).num_epochs(rows, small=True) == (2 * epochs if rows < 60_000 else 100)
    assert Settings(epochs=3).num_epochs(rows, small=True) == 3


def test_a_long_training_has_some_lines():
    said = [line for line in lines((X[:, 0] > 0).long(), epochs=101) if line.startswith("epoch")]
    assert said[0].startswith("epoch   1/101")
    assert said[-1].startswith("epoch 101/101")
    assert len(said) == 18  # 1, every sixth, and the last
