"""Resuming with another network is refused with what differs; with the same it goes on."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError

EPOCHS, BATCH = 3, 16  # 60 rows: 4 steps an epoch, the last of 12 rows; 12 steps in all


def build(activation=nn.Tanh, widths=(64, 6, 3), **options):
    """A plain network for three targets."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Flatten()]
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), activation()]
        return pt.bayesian(nn.Sequential(*layers[:-1]), **{"rho": -4.0, "seed": 0, **options})


@pytest.fixture
def regression(small):
    """Three targets of each image."""
    targets = small.x.flatten(1)[:, 20:23] * torch.tensor([1.0, 0.5, 0.2])
    return pt.Dataset(small.x, targets, "regression")


NOISE = {"likelihood": pt.GaussianNoise(0.3, num_targets=3)}
OTHERS = {  # what was begun with, what is gone on with, what is said
    "weights": (
        {"widths": (64, 6, 3, 3)},
        {"widths": (64, 6, 1, 3)},
        r"its weights was .*'5.weight': \[3, 3\].*\[3, 1\]",
    ),
    "as many weights": (
        {"widths": (64, 4, 16, 3)},
        {"widths": (64, 5, 7, 3)},
        r"its weights was \{.*'3.weight': \[16, 4\].*and is now \{.*'3.weight': \[7, 5\]",
    ),
    "activation": (
        {},
        {"activation": nn.ReLU},
        r"its modules was \['\(2\): Tanh\(\)'\], and is now \['\(2\): ReLU\(\)'\]",
    ),
    "noise": (
        NOISE,
        {"likelihood": pt.GaussianNoise(0.4, num_targets=3)},
        r"its likelihood was .*0\.3.*, and is now .*0\.4",
    ),
    "learnt noise": (NOISE, {"likelihood": pt.GaussianNoise("learnt", num_targets=3)}, "its likelihood was .*learnt"),
    "prior's scale": ({"prior": pt.Gaussian(0.3)}, {"prior": pt.Gaussian(0.4)}, "its prior's values was"),
    "prior's mean": ({"prior": pt.Gaussian(0.3)}, {"prior": pt.Gaussian(0.3, mean=0.1)}, "its prior"),
    "prior": (
        {"prior": pt.Gaussian(0.3)},
        {"prior": pt.Laplace(0.3)},
        "its prior was .*gaussian.*, and is now .*laplace",
    ),
    "posterior": ({}, {"posterior": "point"}, "its posterior was .*mean_field.*, and is now .*point"),
    "rank": (
        {"posterior": "low_rank", "rank": 2},
        {"posterior": "low_rank", "rank": 3},
        "its posterior was .*2.*, and is now .*3",
    ),
    "bayesian part": (
        {},
        {"select": "3.*"},
        r"its weights was .*'1\.weight': \[6, 64\].*, and is now .*'1\.weight': None",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_network_is_refused_with_what_differs(broken_off, checkpoint_bytes, regression, tmp_path, case):
    begun, other, message = OTHERS[case]
    out, options = (
        tmp_path / "run",
        {"epochs": 2, "batch_size": 20, "optimizer": "adam"},
    )  # not by rule
    broken_off(build(**begun), regression, out=out, at=2, **options)
    before = checkpoint_bytes(out)
    net = build(**other)
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(UsageError, match="a run resumes only with the network it began with; " + message):
        pt.fit(net, regression, out=out, resume=True, **options)
    assert checkpoint_bytes(out) == before
    assert all(torch.equal(state[name], tensor) for name, tensor in net.state_dict().items())


def test_the_networks_with_as_many_weights_do_have_as_many():
    begun, other, _ = OTHERS["as many weights"]
    assert build(**begun).num_weights == build(**other).num_weights


SAME = {
    "learnt noise": ({}, {}),
    "noise": (NOISE, {}),
    "learnt prior": ({}, {"learn_prior": True}),
    "learnt prior, about a mean": ({"prior": pt.Laplace("kaiming", mean="pretrained")}, {"learn_prior": True}),
    "prior about the first weights": ({"prior": pt.Gaussian(0.3, mean="pretrained")}, {}),
    "penalty": ({}, {"penalty": "l1", "penalty_factor": 0.5}),
    "ivon": ({}, {"optimizer": "ivon", "optimizer_options": {"hess_init": 0.3}}),
    "low rank": ({"posterior": "low_rank", "rank": 2}, {}),
}


@pytest.mark.parametrize("case", SAME)
@pytest.mark.parametrize("object_itself", [False, True])
def test_the_same_network_goes_on(broken_off, regression, tmp_path, same, case, object_itself):
    """Made anew, or the very object whose training was interrupted, with what that has changed in it."""
    network, settings = SAME[case]
    out, options = tmp_path / "run", {"epochs": 3, "batch_size": 20, **settings}
    whole = pt.fit(build(**network), regression, **options).net
    net = build(**network)
    broken_off(net, regression, out=out, at=5, **options)
    resumed = pt.fit(net if object_itself else build(**network), regression, out=out, resume=True, **options).net
    assert same(dict(resumed.state_dict()), dict(whole.state_dict()))
