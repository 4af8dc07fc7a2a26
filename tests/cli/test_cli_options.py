"""Flags from the schema: how they are read, in the config, and on resuming."""

import pytest

from posterity.cli.options import parse
from posterity.experiments import Record, Run
from posterity.experiments.configuration import configure


def test_a_flag_is_read_into_values():
    assert parse("schedule_options", "patience=3, drop=0.5,metric=val_nll") == {
        "patience": 3,
        "drop": 0.5,
        "metric": "val_nll",
    }
    assert parse("optimizer_options", "amsgrad=true,betas=0.8:0.99,eps=1e-6,fused=false") == {
        "amsgrad": True,
        "betas": (0.8, 0.99),
        "eps": 1e-6,
        "fused": False,
    }
    assert parse("schedule_options", "") == {}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden", "400, 400", (400, 400)), ("hidden", "", ()), ("deterministic", "0.*,*.bias", ("0.*", "*.bias")),
        ("prior_mean", "pretrained", "pretrained"), ("prior_mean", "-0.5", -0.5), ("prior_scale", "1e-3", 1e-3),
        ("temperature", "per-weight", "per-weight"), ("noise", "input", "input"), ("noise", "0.1", 0.1),
        ("penalty_factors", "0.*=1e-4,*=1", {"0.*": 1e-4, "*": 1}), ("task", "binary", "binary"),
        ("posterior_options", "rank=3", {"rank": 3}), ("posterior_options", "share=layer", {"share": "layer"}),
        ("prior_options", "df=5,slope=0.1", {"df": 5, "slope": 0.1}), ("model_options", "width=16", {"width": 16}),
    ],
)  # fmt: skip
def test_a_flags_text_becomes_its_fields_value(name, text, value):
    found = parse(name, text)
    assert found == value
    assert type(found) is type(value)
    assert getattr(Run.of(**{name: found}), name) == value


@pytest.mark.parametrize("name", Run.model_fields)
def test_every_default_can_be_given_as_a_flag(name, cli):
    """What is written by hand as the default is the default."""
    default = Run.model_fields[name].default
    if default is None or isinstance(default, bool):
        return
    text = ",".join(default) if isinstance(default, (tuple, dict)) else str(default)
    assert configure({name: parse(name, text)}).key == Run().key


def test_flags_reach_the_run(train, tmp_path):
    flags = (
        "--init", "uniform", "--prior", "mixture", "--prior-scale", 1, "--prior-mean", "pretrained",
        "--prior-options", "pi=0.25,ratio=4", "--posterior", "tied", "--posterior-options", "share=layer",
        "--relative-sd", 0.1, "--relative-to", "init", "--model-options", "activation=tanh", "--train-rows", 100,
        "--augmentation", "crop",
    )  # fmt: skip
    done = train("run", *flags)
    assert done.code == 0, done.err
    run = Run.read(tmp_path / "run" / "config.toml")
    assert run == Run(
        dataset="digits", model="mlp", hidden=(16,), epochs=1, init="uniform", prior="mixture", prior_scale=1.0,
        prior_mean="pretrained", prior_options={"pi": 0.25, "ratio": 4}, posterior="tied",
        posterior_options={"share": "layer"}, relative_sd=0.1, relative_to="init",
        model_options={"activation": "tanh"}, train_rows=100, augmentation="crop",
    )  # fmt: skip


def test_a_penalty_with_factors_by_layer(train, tmp_path):
    done = train("run", "--penalty", "l2", "--penalty-factors", "1.*=0.5,*=2", "--penalty-variance", "edge-of-chaos")
    assert done.code == 0, done.err
    assert Record.read("run").load().net.prior.factors.tolist() == [0.5, 0.5, 2.0, 2.0]


def test_options_are_replayed_and_resumed(train, cli, tmp_path):
    flags = (
        "--optimizer-options",
        "betas=0.8:0.99",
        "--schedule",
        "step",
        "--schedule-options",
        "milestones=0.5,drop=0.2",
    )
    wrong = train("run", *flags)
    assert "numbers such as 0.5:0.75" in wrong.err
    flags = (*flags[:-1], "milestones=0.3:0.6,drop=0.2,by=epoch")
    done = train("run", *flags, "--schedule-sd-options", "drop=0.5")
    assert done.code == 0, done.err
    run = Run.read(tmp_path / "run" / "config.toml")
    assert run.schedule_options == {"milestones": (0.3, 0.6), "drop": 0.2, "by": "epoch"}
    assert run.optimizer_options == {"betas": (0.8, 0.99)}
    assert run.schedule_sd_options == {"drop": 0.5}
    assert cli("train", "--out", "run", "--resume", *flags).code == 0
    again = cli("train", "--out", "run", "--resume", "--schedule-options", "drop=0.1")
    assert again.code == 2
    assert "--schedule-options" in again.err
    replayed = cli("train", "--config", "run/config.toml", "--out", "again", "--quiet")
    assert replayed.code == 0
    assert Run.read(tmp_path / "again" / "config.toml") == run
