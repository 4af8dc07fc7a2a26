"""A package that adds a model, data, a posterior, a prior and an optimiser by entry points: the library is not edited.

It is installed as pip would, a folder with a dist-info on the path, and used by real processes.
"""

import json
import os
import subprocess
import sys

import pytest

SOURCE = """
import torch
from dataclasses import dataclass
from torch import nn
from posterity.posteriors import MeanField
from posterity.priors.location_scale import LocationScale
from posterity.priors.scales import sd_of


def net(input_shape, num_outputs, width=4):
    return nn.Sequential(nn.Linear(input_shape[0], width), nn.Tanh(), nn.Linear(width, num_outputs))


def data(seed=0):
    rows = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 2, generator=rows)
    y = (x[:, 0] > 0).long()
    return (x[:40], y[:40]), (x[40:], y[40:])


class Theirs(MeanField):
    kind = "theirs"


class FlatLogistic(LocationScale):
    kind = "logistic"

    def log_standard(self, z):
        s = torch.pi / 3**0.5
        return torch.log(torch.tensor(s)) - s * z - 2 * nn.functional.softplus(-s * z)


@dataclass(frozen=True)
class Logistic:
    scale: float | str = "narrow"
    mean: float | str = 0.0
    distribution = FlatLogistic

    def bind(self, layout, weights):
        return FlatLogistic(sd_of(self.scale, layout, weights))


class Signed(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, beta=0.5):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["beta"])
                p.sub_(group["lr"] * average.sign())
"""
POINTS = """
[posterity.models]
their-net = their_package:net
broken = their_package:gone
[posterity.datasets]
their-data = their_package:data
[posterity.posteriors]
theirs = their_package:Theirs
[posterity.priors]
logistic = their_package:Logistic
[posterity.optimizers]
signed = their_package:Signed
[posterity.optimisers_of_somebody_else]
x = nowhere:x
"""
CHOICE = ("--model", "their-net", "--model-options", "width=5", "--dataset", "their-data", "--posterior", "theirs",
          "--prior", "logistic", "--optimizer", "signed", "--optimizer-options", "beta=0.7")  # fmt: skip


@pytest.fixture
def posterity(tmp_path):
    place = tmp_path / "site"
    info = place / "their_package-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "their_package.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*words, ok=True):
        command = [sys.executable, "-m", "posterity", *map(str, words)]
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode == 0) == ok, done.stderr
        return done

    return run


def test_a_package_is_trained_resumed_evaluated_and_predicted_with(posterity, tmp_path):
    posterity("train", *CHOICE, "--epochs", 3, "--out", "run", "--quiet")
    posterity("train", "--out", "run", "--resume", "--epochs", 4, "--quiet")
    posterity("train", *CHOICE, "--epochs", 4, "--out", "whole", "--quiet")
    found = json.loads(posterity("evaluate", "run", "--json").stdout)
    assert found["test"]["accuracy"] >= 0.5
    (tmp_path / "x.csv").write_text("a,b\n1,2\n-1,0.5\n")
    posterity("predict", "run", "x.csv", "--out", "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 3
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'model = "their-net"' in config
    assert 'optimizer = "signed"' in config


def test_what_it_offers_is_listed_and_what_is_broken_names_it(posterity):
    listed = posterity("data", "list", "--json")
    assert "their-data" in {each["name"] for each in json.loads(listed.stdout)}
    near = posterity("train", "--model", "their-nett", "--out", "run", ok=False).stderr
    assert "Did you mean 'their-net'" in near
    broken = posterity("train", "--model", "broken", "--out", "run", ok=False).stderr
    assert "package 'their-package' offers the model 'broken' (their_package:gone)" in broken
    assert "Traceback" not in broken
