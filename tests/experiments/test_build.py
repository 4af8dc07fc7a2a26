"""What a run says reaches the network and the training, and what it cannot say is refused before anything is there."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posterity.core.errors import DataError, UsageError
from posterity.experiments import Run, execute
from posterity.experiments.build import build_data, build_network
from posterity.training import plan

SMALL = {"dataset": "digits", "model": "mlp", "hidden": (8,), "epochs": 1, "train_rows": 100}


def network(**settings):
    run = Run.of(**{**SMALL, **settings})
    return build_network(run, build_data(run).train)


def planned(**settings):
    run = Run.of(**{**SMALL, **settings})
    parts = build_data(run)
    return plan(build_network(run, parts.train), parts.train, parts.val, run)


def by_layer(net, vector):
    return {name: view.unique() for name, view in net.layout.views(vector.detach()).items()}


def test_the_seed_alone_decides_the_first_weights():
    one = network(seed=3)
    torch.rand(7)
    assert torch.equal(network(seed=3).posterior.mean, one.posterior.mean)
    assert not torch.equal(network(seed=4).posterior.mean, one.posterior.mean)


def test_relative_sd():
    net = network(relative_sd=0.25)
    torch.testing.assert_close(net.posterior.sd, 0.25 * net.prior.sd)
    drawn = network(relative_sd=0.5, relative_to="init", init="xavier", prior_scale=3.0)
    for name, n_in, n_out in (("1.weight", 64, 8), ("3.weight", 8, 10)):
        expected = torch.tensor(0.5 * math.sqrt(2 / (n_in + n_out)))
        torch.testing.assert_close(drawn.layout.views(drawn.posterior.sd.detach())[name].unique(), expected[None])


@pytest.mark.parametrize("init", ["uniform", "kaiming", "xavier", "glorot"])
def test_init(init):
    means, module = (network(init=i, prior_scale=0.3).posterior.mean.detach() for i in (init, "module"))
    assert not torch.isclose(means, module).any()
    if init == "uniform":
        assert means.abs().max() <= math.sqrt(3) * 0.3
        assert means.std() == pytest.approx(0.3, rel=0.1)


def test_prior_mean():
    assert network(prior_mean=0.5).prior.mean.unique().tolist() == [0.5]
    net = network(prior_mean="pretrained")
    assert torch.equal(net.prior.mean, net.posterior.mean)


def test_degrees_of_freedom():
    assert network(prior="student_t", prior_options={"df": 7}).prior.options()["df"] == 7


def test_the_mixtures_parts():
    prior = network(prior="mixture", prior_scale=2.0, prior_options={"pi": 0.25, "sd2": 0.5}).prior
    torch.testing.assert_close(prior.sd.unique(), torch.tensor([math.sqrt(0.25 * 4 + 0.75 * 0.25)]))
    ratio = network(prior="mixture", prior_scale=2.0, prior_options={"pi": 0.25, "ratio": 4}).prior
    torch.testing.assert_close(ratio.sd, prior.sd)


def test_the_slope_of_kaimings_rule():
    plain, leaky = (network(prior_scale="kaiming", prior_options=options) for options in ({}, {"slope": 0.5}))
    torch.testing.assert_close(leaky.prior.sd, plain.prior.sd / math.sqrt(1.25))


def test_model_options():
    assert isinstance(network(model_options={"activation": "tanh"}).model[2], nn.Tanh)
    assert network(model="cnn", hidden=None, model_options={"width": 5}).model[0].out_channels == 5


def test_train_rows():
    run = Run(**{**SMALL, "train_rows": 40, "val_fraction": 0.25})
    parts, again = build_data(run), build_data(run)
    assert (len(parts.train), len(parts.val)) == (30, 10)
    assert torch.equal(parts.train.x, again.train.x)
    other = build_data(run.model_copy(update={"seed": 1}))
    assert not torch.equal(parts.train.y, other.train.y)


@pytest.mark.parametrize(("options", "blocks"), [({}, 1), ({"share": "layer"}, 2)])
def test_tied(options, blocks):
    net = network(posterior="tied", posterior_options=options, rho=-5.0)
    assert net.posterior.rho.shape == (blocks,)
    assert net.posterior.sd.unique().tolist() == pytest.approx([F.softplus(torch.tensor(-5.0)).item()])


def test_rank():
    assert network(posterior="low_rank", posterior_options={"rank": 3}).posterior.rank == 3


def test_yellowfins_momentum(tmp_path):
    run = Run(**SMALL, optimizer="yellowfin", optimizer_options={"momentum": 0.3})
    record = execute(run, tmp_path / "run", samples=2)
    assert record.history[-1]["groups"]["mean"]["tuning"]["mu"] == pytest.approx(0.3)


def test_augmentation(tmp_path):
    base = Run(**{**SMALL, "model": "cnn", "hidden": None, "model_options": {"width": 2}})
    plain, crops, again = (
        execute(run, tmp_path / str(number), samples=2).load().net.posterior.mean
        for number, run in enumerate([base, *[base.model_copy(update={"augmentation": "crop"})] * 2])
    )
    assert torch.equal(crops, again)
    assert not torch.equal(plain, crops)


def test_penalty_factors():
    free = planned(penalty="l2", penalty_factors={"1.*": 2.0}).subject.prior
    theory = planned(penalty="l2").subject.prior
    names = [entry.name for entry in free.entries]
    assert free.factors[names.index("1.weight")].item() == 2.0
    assert free.factors[names.index("3.weight")] == theory.factors[names.index("3.weight")]
    twice = planned(penalty="l2", penalty_factor=2.0).subject.prior
    torch.testing.assert_close(twice.factors, 2 * theory.factors)


def test_penalty_variance(tmp_path):
    glorot, chaos = (planned(penalty="l2", penalty_variance=v).subject.prior for v in ("glorot", "edge-of-chaos"))
    ratio = (glorot.factors / chaos.factors).unique()
    assert len(ratio) == 1
    assert ratio.item() > 1.1
    record = execute(Run(**SMALL, penalty="l2", penalty_variance="edge-of-chaos"), tmp_path / "run", samples=2)
    torch.testing.assert_close(record.load().net.prior.factors, chaos.factors)


def test_noise_and_deterministic_weights():
    net = network(dataset="diabetes", noise=0.3, deterministic=("1.*",))
    assert (
        net.likelihood.options()
        == build_network(
            Run(**{**SMALL, "dataset": "diabetes"}, noise=0.3),
            build_data(Run(**{**SMALL, "dataset": "diabetes"})).train,
        ).likelihood.options()
    )
    assert net.layout.names == ["3.weight", "3.bias"]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"relative_sd": 0.1, "rho": -3.0}, "rho"), ({"posterior": "point", "rho": -3.0}, "rho"),
        ({"posterior": "point", "relative_sd": 0.1}, "relative_sd"), ({"relative_to": "init"}, "relative_sd"),
        ({"relative_sd": 0.1, "relative_to": "init"}, "an init that draws the means"),
        ({"prior_options": {"df": 3}}, "df"), ({"prior": "student_t", "prior_options": {"df": "many"}}, "a number"),
        ({"prior": "student_t", "prior_options": {"df": 1.5}}, "1.5"),
        ({"prior": "mixture", "prior_options": {"pi": 2}}, "2"),
        ({"prior": "mixture", "prior_options": {"sd2": 0.1, "ratio": 3}}, "not both"),
        ({"prior_scale": 1.0, "prior_options": {"slope": 0.1}}, "kaiming"),
        ({"model_options": {"activation": "tan"}}, "Did you mean 'tanh'?"), ({"model_options": {"width": 3}}, "width"),
        ({"model": "lenet5"}, "hidden"), ({"model_options": {"hidden": (4,)}}, "not both"),
        ({"prior_options": {"scale": 1.0}}, "scale"), ({"model_options": {"num_outputs": 3}}, "num_outputs"),
        ({"train_rows": 10_000}, "10000"), ({"augmentation": "crop", "dataset": "diabetes"}, "images"),
        ({"posterior": "tied", "posterior_options": {"share": "layers"}}, "Did you mean 'layer'?"),
        ({"posterior_options": {"rank": 3}}, "rank"),
        ({"posterior": "low_rank", "posterior_options": {"rank": 0}}, "0"),
        ({"posterior": "low_rank", "posterior_options": {"rank": "x"}}, "a whole number such as 8"),
        ({"posterior": "low_rank", "posterior_options": {"rank": 2.5}}, "a whole number such as 8"),
        ({"posterior_options": {"seed": 3}}, "takes no options, but was given seed"),
        ({"model": "cnn", "hidden": None, "model_options": {"width": 2.5}}, "a whole number"),
        ({"model": "cnn", "hidden": None, "model_options": {"width": 0}}, "0"),
        ({"optimizer": "yellowfin", "optimizer_options": {"momentum": 1.5}}, "1.5"),
        ({"penalty_factors": {"*": 1.0}}, "goes with a penalty"), ({"penalty_variance": "edge-of-chaos"}, "a penalty"),
        ({"penalty": "l2", "penalty_factors": {"nosuch.*": 1.0}}, "nosuch"),
        ({"penalty": "l2", "prior_mean": 0.5}, "leave out prior_mean"),
        ({"penalty": "l2", "prior_options": {"slope": 0.1}}, "leave out prior_options"),
        ({"noise": 0.1}, "regression"), ({"deterministic": ("*",)}, "all weights are deterministic"),
        ({"optimizer": "ivon", "optimizer_options": {"weight_decay": 0.1}}, "weight_decay"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_leaves_nothing_behind(settings, part, tmp_path):
    with pytest.raises(UsageError, match=re.escape(part)):
        execute(Run.of(**{**SMALL, **settings}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nothing_left_to_hold_out(tmp_path):
    few = {"dataset": "and", "model": "perceptron", "hidden": None, "train_rows": None, "val_fraction": 0.1}
    with pytest.raises(DataError, match="--val-fraction 0"):
        execute(Run.of(**{**SMALL, **few}), tmp_path / "run")


@pytest.mark.parametrize(("dataset", "kind", "widths"), [("digits", "Conv2d", None), ("diabetes", "Linear", [50, 1])])
def test_the_network_follows_from_the_data(dataset, kind, widths):
    """LeNet-5 for images, an mlp of 50 for tables; a named one is taken with its own defaults."""
    run = Run(dataset=dataset)
    net = build_network(run, build_data(run).train)
    layers = [module for module in net.model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    assert type(layers[0]).__name__ == kind
    assert widths is None or [layer.out_features for layer in layers] == widths
    wide = build_network(Run(dataset=dataset, hidden=(7,), model="mlp"), build_data(run).train)
    assert next(m.out_features for m in wide.model.modules() if isinstance(m, nn.Linear)) == 7
