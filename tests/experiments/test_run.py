"""Run: a complete, replayable, hashable description."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from pydantic import ValidationError, create_model

from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Run, demo_runs
from posterity.experiments import run as module
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import SCHEMA, tomllib
from posterity.training import Settings, plan
from posterity.training.fields import OPTIMISER, setting

DEFAULTS = Path(__file__).with_name("defaults.json")
ODD = Run(
    dataset="data/ü 1.csv", split=3, target="y", task="binary", train_rows=7, test_rows=5, val_fraction=0.25,
    max_one_hot=3, embedded=("town",),
    model="mlp", hidden=(8, 4), model_options={"activation": "tanh"}, init="uniform", noise="input",
    prior="student_t", prior_scale=0.7, prior_mean=-1e-9, prior_options={"df": 5, "slope": 0.25},
    posterior="tied", posterior_options={"share": "layer"}, rho=-1e-17, relative_sd=1e-3, relative_to="init",
    deterministic=("0.*", "a"), augmentation="crop-flip", batch_size=3, epochs=2**40, optimizer="sgd", lr=1e-300,
    ensemble=3,
    optimizer_sd="adam", lr_sd=0.1, lr_ratio=0.5, schedule="step", schedule_sd="constant", warmup=0.1, alternate=2,
    clip=0.1, average="hwa", average_start=0.25, average_every=7, average_restart=True, covariance="snapshot",
    average_rank=3, penalty="l1", penalty_factor=2.0, penalty_factors={"0.*": 1e-4, '"odd".ü*': 3, "*": 1e-3},
    penalty_variance="edge-of-chaos", learn_prior=True, temperature="per-weight", tau=0.3, temperature_warmup=1.5,
    temperature_warmup_shape="cosine", kl_decay=0.1 + 0.2, samples=2, estimator="local", gradient="path",
    baseline="moving", rank_noise="own", patience=3, val_samples=9, seed=2**53 + 1,
    optimizer_options={"betas": (0.8, 0.99), "amsgrad": True}, optimizer_sd_options={"momentum": 1},
    schedule_options={"floor": 1e-3, "by": "epoch"}, schedule_sd_options={"milestones": (0.25, 0.5), "drop": 0.3},
)  # fmt: skip
PRETRAINED = Run(prior_mean="pretrained", noise=0.25, temperature=0.1, prior_options={"pi": 1, "sd2": "kaiming"})


def written(run, folder):
    run.write(folder / "config.toml")
    return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))


def test_the_odd_run_differs_in_every_field():
    assert not [name for name in Run.model_fields if ODD.is_default(name)]


@pytest.mark.parametrize("run", [Run(), ODD, PRETRAINED, *demo_runs(3).values()])
def test_round_trip_through_toml(run, tmp_path):
    run.write(tmp_path / "config.toml")
    again = Run.read(tmp_path / "config.toml")
    assert again == run
    assert again.key == run.key
    assert list(again.penalty_factors) == list(run.penalty_factors)
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


def test_the_file_is_complete(tmp_path):
    """All that is not None is written out: a later default changes no old run."""
    found = written(ODD, tmp_path)
    assert found.pop("schema") == SCHEMA
    assert set(found) == set(Run.model_fields)
    assert found["schedule_sd_options"] == {"milestones": [0.25, 0.5], "drop": 0.3}
    plain = written(Run(), tmp_path)
    assert plain.keys() - {"schema"} == Run.model_fields.keys()
    assert plain["lr"] == "(none)"  # or a default that is one day no longer None would change this run


def test_what_a_file_lacks_has_its_default(tmp_path):
    (tmp_path / "config.toml").write_text(tomli_w.dumps({"epochs": 3}))
    assert Run.read(tmp_path / "config.toml") == Run(epochs=3)


def test_a_run_is_the_settings_of_its_training():
    run = Run(warmup=0.1, schedule="cyclic", schedule_options={"cycles": 2}, optimizer_sd_options={"eps": 1e-6})
    settings = Settings.of(**run.training_values())
    assert settings.training_values() == run.training_values()
    for sd in (False, True):
        assert run.schedule_of(sd=sd) == settings.schedule_of(sd=sd) == ("cyclic", {"warmup": 0.1, "cycles": 2})
    assert settings.optimizer_sd_options == {"eps": 1e-6}
    assert Settings.of(**Run().training_values()) == Settings()


def test_the_key_does_not_depend_on_how_it_is_written():
    values = {"temperature": 1, "hidden": [4], "prior_scale": 1, "epochs": 3}
    assert Run(**values).key == Run(**dict(reversed(values.items()))).key
    assert Run(temperature=1.0, hidden=(4,), prior_scale=1.0, epochs=3).key == Run(**values).key
    assert Run(epochs=Settings().epochs).key == Run().key
    options = {"momentum": 1, "betas": (0.8, 0.9)}
    again = {"betas": [0.8, 0.9], "momentum": 1.0}
    assert Run(optimizer_options=options).key == Run(optimizer_options=again).key


def test_the_key_is_the_same_in_another_process():
    code = "from posterity.experiments import Run; print(Run(epochs=3, hidden=(4,)).key)"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == Run(epochs=3, hidden=(4,)).key


def test_the_key_of_a_run_stays_what_it_is(monkeypatch):
    """Keys under which results are stored: if one changes here, those of all stored runs do."""
    monkeypatch.setattr(module, "SCHEMA", 1)
    monkeypatch.setattr(Run, "_rules", lambda self: {})
    assert Run().key == "c9dca30088fb51c6"
    assert (
        Run(epochs=33, hidden=(4,), optimizer_options={"momentum": 1}, penalty_factors={"*": 2}).key
        == "769f0b5eb21c92a9"
    )


def test_every_field_changes_the_key():
    changed = {Run().model_copy(update={name: value}).key for name, value in ODD}
    assert len({Run().key, *changed}) == len(Run.model_fields) + 1


def test_the_order_of_patterns_is_part_of_a_run():
    """The first pattern that matches decides."""
    one = Run(penalty="l2", penalty_factors={"*.weight": 1.0, "1.*": 2.0})
    other = Run(penalty="l2", penalty_factors={"1.*": 2.0, "*.weight": 1.0})
    assert one.key != other.key
    assert list(other.changed_from(one)) == ["penalty_factors"]


def test_an_added_option_leaves_every_key():
    grown = create_model("Grown", __base__=Run, new_option=(float, setting(0.5, OPTIMISER, "something new")))
    for run in (Run(), ODD, PRETRAINED, *demo_runs(3).values()):
        later = grown(**run.model_dump())
        assert later.new_option == 0.5
        assert later.key == run.key
    assert grown(new_option=0.6).key != Run().key


def test_an_added_option_leaves_every_folder(tmp_path):
    grown = create_model("Grown", __base__=Run, new_option=(float, setting(0.5, OPTIMISER, "something new")))
    ODD.write(tmp_path / "config.toml")
    assert grown.read(tmp_path / "config.toml") == grown(**ODD.model_dump())


def test_a_rule_that_has_changed_changes_the_keys_of_those_that_go_by_it(monkeypatch):
    """Keys from before the temperature by the data, the noise at the end, and an optimiser by rule."""
    monkeypatch.setattr(Run, "_rules", lambda self: {})
    runs = [
        Run(dataset="digits", temperature=0.1, optimizer="adam"),
        Run(dataset="uci-boston", temperature=0.1, noise=0.3, optimizer="adam"),
        Run(dataset="digits", optimizer="adam"),
        Run(dataset="digits", temperature=0.1),
        Run(dataset="uci-boston", temperature=0.1, noise=0.3),
        Run(dataset="uci-boston", temperature=0.1, optimizer="adam"),
    ]
    before = [run.key for run in runs]
    monkeypatch.undo()
    assert [run.key == key for run, key in zip(runs, before, strict=True)] == [True, True, False, False, False, False]


def test_small_regressions_have_the_keys_and_the_optimiser_that_they_had():
    """That the optimiser goes by rule changed the keys of others alone: the rule gives these what was the default."""
    assert set(Run(dataset="uci-boston")._rules()) == {"rule of auto", "rule of noise"}
    assert set(Run(dataset="digits")._rules()) == {"rule of auto", "rule of optimizer"}
    said = {"optimizer": "adabayes-fp"}
    assert Run(dataset="digits", **said).key not in (
        Run(dataset="digits").key,
        Run(dataset="digits", optimizer="adam").key,
    )
    assert Run(dataset="uci-boston", **said).key != Run(dataset="uci-boston").key  # which may be a large network's, too
    run = Run(dataset="diabetes", train_rows=20)
    train = build_data(run).train
    assert plan(build_network(run, train), train, None, run).settings.optimizer == "adabayes-fp"


def test_another_schema_gives_other_keys(monkeypatch):
    before = Run(epochs=3).key
    monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)
    assert Run(epochs=3).key != before


def current_defaults():
    return {"schema": SCHEMA, "defaults": Run().as_dict()}


def test_a_changed_default_takes_a_new_schema():
    """A key says what differs from the defaults: where one changes the same flags must not give the same key."""
    kept, now = json.loads(DEFAULTS.read_text()), current_defaults()
    pairs = {name: (value, now["defaults"].get(name, "gone")) for name, value in kept["defaults"].items()}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    command = "python tests/experiments/test_run.py"
    if kept["schema"] == SCHEMA:
        assert not changed, f"defaults changed ({changed}): raise SCHEMA in experiments/run.py, then run: {command}"
    assert now == kept, f"write the defaults anew: {command}"


def test_a_run_is_frozen_and_takes_no_unknown_field():
    with pytest.raises(ValidationError):
        Run().epochs = 3
    with pytest.raises(UsageError, match="nosuch"):
        Run.of(nosuch=1)
    with pytest.raises(UsageError, match=r"epochs.*0.*lr.*-1"):
        Run.of(epochs=0, lr=-1)


def test_reading_what_is_not_a_run(tmp_path):
    path = tmp_path / "config.toml"
    with pytest.raises(UsageError, match="there is no run"):
        Run.read(path)
    for content in (tomli_w.dumps({"epochs": "many"}), "epochs = ", 'nosuch = 1\nepochs = "x"'):
        path.write_text(content)
        with pytest.raises(CorruptFileError, match=r"config\.toml"):
            Run.read(path)


def test_what_changed_from_another_run():
    assert not ODD.changed_from(ODD)
    changed = Run(epochs=3, hidden=(4,)).changed_from(Run())
    assert changed == {"epochs": (None, 3), "hidden": (None, (4,))}


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps(current_defaults(), indent=1) + "\n")
