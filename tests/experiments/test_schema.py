"""One schema: flags, keywords of fit, config files and the tables of the documentation say the same."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import generated
import pytest
import tables
import torch
import typer
from torch import nn

import posterity as pt
from posterity.cli import gradient_variance, range_test, train
from posterity.cli.app import app
from posterity.cli.evaluate import evaluate_command
from posterity.cli.predict import predict_command
from posterity.experiments import Run, evaluate, evaluate_run, execute
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import tomllib
from posterity.experiments.trained import Trained
from posterity.objectives import gradient_variance as measure_variance
from posterity.prediction import DEFAULT_SAMPLES
from posterity.training import Settings
from posterity.training.fields import PANELS

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = {"train": train.COMMAND, "range-test": range_test.COMMAND, "gradient-variance": gradient_variance.COMMAND}


def default(function, name):
    return inspect.signature(function).parameters[name].default


def flags(command):
    return {p.name: p for p in typer.main.get_command(app).commands[command].params}


@pytest.mark.parametrize("name", Run.model_fields)
def test_every_field_says_what_it_is(name):
    field = Run.model_fields[name]
    assert not field.is_required()
    assert field.json_schema_extra["panel"] in PANELS
    assert field.description
    assert not field.description.endswith(".")


def test_panels_hold_every_field_once():
    named = [name for names in Run.by_panel().values() for name in names]
    assert sorted(named) == sorted(Run.model_fields)
    assert [panel for panel in PANELS if panel in Run.by_panel()] == list(Run.by_panel())


def test_fit_has_the_settings_as_keywords():
    parameters = inspect.signature(pt.fit).parameters
    for name, field in Settings.model_fields.items():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == field.default, name
    others = set(parameters) - set(Settings.model_fields)
    assert others == {"net", "train", "val", "likelihood", "standardise", "out", "resume", "overwrite",
                      "checkpoint_seconds", "progress", "callbacks", "num_data"}  # fmt: skip


@pytest.mark.parametrize("module", generated.FILES, ids=lambda path: path.name)
def test_the_modules_made_from_the_schema_are_its(module):
    assert module.read_text(encoding="utf-8") == generated.FILES[module](), "run: python docs/tables.py"


def test_type_checkers_know_the_keywords_of_fit(tmp_path):
    right = "import functools, torch, posterity as pt\ndef f(net: pt.BayesianModule, x: torch.Tensor) -> None:\n"
    call = "    pt.fit(net, (x, x), {})\n"
    given = ["epochs=3", "temperature=pt.per_weight()", "optimizer=torch.optim.NAdam", "lr=1", "clip=None",
             "optimizer=functools.partial(torch.optim.SGD), optimizer_options={'nesterov': True}"]  # fmt: skip
    wrong = ["epoch=3", "epochs='3'", "optimizer=3", "optimizer_options=0.9", "seed=None"]
    file = tmp_path / "user.py"
    file.write_text(right + "".join(map(call.format, [*given, *wrong])))
    ways = [generated.SOURCES / name for name in ("api.py", "training/__init__.py", "training/fit.py")]
    done = subprocess.run(  # with torch itself it would take minutes
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", tmp_path, file,
         generated.SOURCES / "__init__.py", *ways, generated.SOURCES / "training" / "keywords.py"],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if line.startswith("user.py")}
    assert lines == {3 + len(given) + n for n in range(len(wrong))}, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_is_a_flag(command):
    found = flags(command)
    for panel, names in Run.by_panel().items():
        for name in names:
            flag = found[name]
            assert flag.opts[0] == f"--{name.replace('_', '-')}"
            assert flag.default is None  # what was not given is the schema's
            assert flag.rich_help_panel == panel
            assert flag.help.startswith(Run.model_fields[name].description)
    assert not set(inspect.signature(COMMANDS[command]).parameters) - set(found)


def test_help_shows_the_defaults():
    found = flags("train")
    assert found["batch_size"].help.endswith("; default 100")
    assert found["optimizer"].help.endswith("; by default muon, of a small regression adabayes-fp")
    assert "default" not in found["lr"].help.replace("by default", "")


def test_a_config_has_every_field(tmp_path):
    Run().write(tmp_path / "config.toml")
    values = tomllib.loads((tmp_path / "config.toml").read_text(encoding="utf-8"))
    assert values.keys() - {"schema"} == Run.model_fields.keys()


def test_the_tables_of_the_documentation_are_the_schemas():
    pages = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}
    old = [name for name, text in pages.items() if tables.filled(text) != text]
    assert not old, f"run: python docs/tables.py ({', '.join(old)})"
    shown = pages["runs.md"]
    for name, field in Run.model_fields.items():
        (line,) = [line for line in shown.splitlines() if line.startswith(f"| `{name}` |")]
        assert (f"| `{field.default}` |" in line) == (field.default not in (None, {}, ())), name


def test_a_network_starts_alike_from_python_and_from_a_run():
    """Prior and standard deviations, where nothing is said."""
    run = Run(dataset="two-moons")
    train = build_data(run).train
    built = build_network(run, train)
    ours = pt.bayesian(nn.Sequential(nn.Flatten(), nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, 2)))
    assert torch.equal(built.prior.sd, ours.prior.sd)
    assert torch.equal(built.posterior.sd, ours.posterior.sd)


def test_samples_have_one_default_to_predict_with_and_one_in_a_step():
    predicting = (pt.BayesianModule.predict, Trained.predict, evaluate, evaluate_run, execute, evaluate_command,
                  predict_command)  # fmt: skip
    assert {default(function, "samples") for function in predicting} == {DEFAULT_SAMPLES}
    assert Run().samples == default(pt.fit, "samples") == default(pt.negative_elbo, "samples")
    assert Run().samples == default(measure_variance, "samples")


@pytest.mark.parametrize("name", ["group", "low", "high", "steps"])
def test_limits_of_the_range_test_have_one_default(name):
    assert flags("range-test")[name].default == default(pt.range_test, name)


def test_draws_of_the_gradients_variance_have_one_default():
    assert flags("gradient-variance")["draws"].default == default(measure_variance, "draws")
