"""Help, names, mistakes: exit codes, one line on stderr, nothing but results on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import posterity


def check_usage_error(done, *parts):
    """Exit code 2 and one line."""
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith("error: "), done.err
    assert done.err.count("\n") == 1, done.err
    for part in parts:
        assert str(part) in done.err


@pytest.mark.parametrize(
    "command",
    [
        "train",
        "evaluate",
        "predict",
        "range-test",
        "penalty",
        "gradient-variance",
        "demo",
        "data list",
        "data fetch",
        "config show",
        "compare",
        "landscape",
        "config validate",
        "config diff",
    ],
)
def test_every_command_has_help_with_an_example(cli, command):
    for flag in ("--help", "-h"):
        done = cli(*command.split(), flag)
        assert done.code == 0
        assert f"Example: posterity {command}" in " ".join(done.out.replace("│", " ").split())
    if command == "train":
        panels = [line.split(" ")[1] for line in done.out.splitlines() if line.startswith("╭─ ")]
        assert {"Data", "Network", "Prior", "Optimiser", "Averaging"} <= set(panels)
    if not command.startswith(("data", "penalty", "config diff", "compare", "landscape")):
        assert "--seed" in done.out
    assert "--json" in done.out


def test_help_of_the_whole_names_all_commands(cli):
    done = cli("--help")
    assert done.code == 0
    for command in ("train", "evaluate", "predict", "demo", "data"):
        assert command in done.out
    assert "train" in cli().out + cli().err


def test_a_refused_flag_names_the_nearest_and_where_to_look(cli):
    check_usage_error(cli("train", "--out", "run", "--epoch", 3), "--epochs", "see posterity train --help")
    check_usage_error(cli("trian"), "Did you mean 'train'?", "see posterity --help")
    check_usage_error(cli("train"), "Missing option '--out'")


def test_an_interrupted_command(cli, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("posterity.experiments.evaluate_run", interrupt)
    done = cli("evaluate", "run")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_a_disk_that_cannot_be_written(cli, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("posterity.experiments.evaluate_run", refuse)
    done = cli("evaluate", "run")
    assert done.code == 1
    assert done.err == "error: [Errno 28] No space left on device\n"


def test_version(cli):
    done = cli("--version")
    assert (done.code, done.out) == (0, f"posterity {posterity.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("trian",), ("train", "--out", "run", "--nosuch", "1"), ("train",),
        ("train", "--out", "run", "--epochs", "many"),
        ("evaluate",), ("predict", "run"), ("evaluate", "run", "--samples", "0"), ("data", "nosuch"),
        ("train", "--out", "run", "--checkpoint-seconds", "-1"),
    ],
)  # fmt: skip
def test_unknown_commands_and_options(cli, arguments, tmp_path):
    check_usage_error(cli(*arguments), "see posterity ", " --help")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "wrong", "right"),
    [
        ("dataset", "digit", "digits"), ("model", "mpl", "mlp"), ("optimizer", "adm", "adam"),
        ("schedule", "cosin", "cosine"), ("prior-scale", "kaimng", "kaiming"),
        ("posterior", "mean-field", "mean_field"), ("deterministic", "1.wait", "1.weight"),
        ("prior", "gauss", "gaussian"), ("prior-mean", "pretrain", "pretrained"), ("init", "kaimng", "kaiming"),
        ("augmentation", "crops", "crop"), ("penalty-variance", "glorott", "glorot"),
    ],
)  # fmt: skip
def test_unknown_names_get_the_nearest(train, option, wrong, right):
    check_usage_error(train("run", f"--{option}", wrong), f"'{wrong}'", f"Did you mean '{right}'?", "Known: ")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--lr", "-1"), "lr"), (("--lr", "nan"), "lr"), (("--epochs", "0"), "epochs"), (("--hidden", "a,b"), "hidden"),
        (("--hidden", "0"), "0"), (("--hidden", "²"), "hidden"), (("--temperature", "-1"), "temperature"),
        (("--temperature", "nan"), "temperature"), (("--kl-decay", "inf"), "inf"), (("--clip", "0"), "clip"),
        (("--val-fraction", "1"), "val_fraction"), (("--prior-scale", "-1"), "-1"), (("--prior-scale", "nan"), "nan"),
        (("--task", "clustering"), "task"), (("--split", "3"), "split"), (("--target", "y"), "target"),
        (("--model", "lenet5"), "hidden"), (("--config", "nosuch.toml"), "nosuch.toml"), (("--rho", "nan"), "rho"),
        (("--rho", "inf"), "rho"), (("--dataset", "gap", "--seed", str(2**70)), "seed"),
        (("--schedule-options", "floor"), "floor"), (("--schedule-options", "flor=0.1"), "Did you mean 'floor'?"),
        (("--optimizer", "adam", "--optimizer-options", "eps=tiny"), "tiny"), (("--optimizer-sd-options", "=1"), "=1"),
        (("--schedule", "step", "--schedule-options", "milestones=0.5:2"), "milestone"),
        (("--dataset", "diabetes", "--noise", "learned"), "learned"), (("--dataset", "diabetes", "--noise", "0"), "0"),
    ],
)  # fmt: skip
def test_wrong_values(train, options, part, tmp_path):
    done = train("run", *options)
    check_usage_error(done, part)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["epoch = 3", "epochs = 'many'", "epochs = ", "lr = -1"])
def test_a_config_with_a_mistake(train, tmp_path, content):
    (tmp_path / "my.toml").write_text(content)
    check_usage_error(train("run", "--config", "my.toml"), "my.toml")


def test_data_list(cli):
    done = cli("data", "list")
    assert done.code == 0
    for name in ("digits", "diabetes", "gap", "mnist", "and"):
        assert name in done.out
    described = {info["name"]: info for info in cli("data", "list", "--json").json}
    assert described["digits"]["num_classes"] == 10
    assert described["digits"]["available"] is True
    assert {"task", "shape", "num_train", "num_test", "origin"} <= described["mnist"].keys()


def test_data_fetch_of_what_cannot_be_fetched(cli):
    check_usage_error(cli("data", "fetch", "nosuch"), "nosuch", "Known: ")
    check_usage_error(cli("data", "fetch", "mnis"), "Did you mean 'mnist'?")
    check_usage_error(cli("data", "fetch", "digits"), "nothing to fetch")


def test_shares_say_what_they_are_a_share_of(train):
    check_usage_error(train("run", "--warmup", 5), "warmup", "a share of the training in which", "5.0")
    check_usage_error(train("run", "--val-fraction", 2), "a share of the training data held out")
    done = train("run", "--dataset", "and", "--model", "perceptron", "--val-fraction", 0.1)
    check_usage_error(done, "--val-fraction 0")


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "posterity", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"posterity {posterity.__version__}\n"), done.stderr


def test_as_an_installed_program(tmp_path):
    """The entry point itself: results on stdout, the rest on stderr, the exit code."""
    program = Path(sys.executable).with_name("posterity")
    command = [program, "train", "--dataset", "digits", "--model", "mlp", "--hidden", "16", "--epochs", "2"]
    done = subprocess.run([*command, "--out", tmp_path / "run", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stopped"] == "epochs"
    assert [line.split()[1] for line in done.stderr.splitlines() if line.startswith("epoch")] == ["1/2", "2/2"]
    assert "\x1b" not in done.stderr  # no terminal, no control characters
