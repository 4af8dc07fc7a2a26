"""Run: a complete, replayable, hashable description."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import tomli_w
from pydantic import ValidationError

from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Run, demo_runs
from posterity.experiments.run import TRAINING, tomllib
from posterity.training import Settings

ODD = Run(
    dataset="data/ü 1.csv", target="y", task="binary", hidden=(8, 4), prior_scale=0.7, deterministic=("0.*", "a"),
    noise="input", lr=1e-300,
    optimizer_sd="sgd", lr_sd=0.1, lr_ratio=0.5, schedule_sd="step", alternate=2, clip=0.1,
    average="hwa", average_every=7, penalty="l1", patience=3, kl_decay=0.1 + 0.2, seed=2**53 + 1, rho=-1e-17,
    optimizer_options={"betas": (0.8, 0.99), "amsgrad": True}, optimizer_sd_options={"momentum": 1},
    schedule_options={"floor": 1e-3, "by": "epoch"}, schedule_sd_options={"milestones": (0.25, 0.5), "drop": 0.3},
    estimator="local", gradient="path", baseline="moving",
)  # fmt: skip


@pytest.mark.parametrize("run", [Run(), ODD, *demo_runs(3).values()])
def test_round_trip_through_toml(run, tmp_path):
    run.write(tmp_path / "config.toml")
    again = Run.read(tmp_path / "config.toml")
    assert again == run
    assert again.key == run.key
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


def test_the_file_is_complete(tmp_path):
    """All that is not None is written out: a later default changes no old run."""
    ODD.write(tmp_path / "config.toml")
    text = (tmp_path / "config.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    assert set(written) == set(Run.model_fields)
    assert written["schedule_sd_options"] == {"milestones": [0.25, 0.5], "drop": 0.3}
    assert Run().model_dump(exclude_none=True).keys() == _written(Run(), tmp_path).keys()


def _written(run, folder):
    run.write(folder / "config.toml")
    return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))


def test_options_reach_fit():
    run = Run(warmup=0.1, schedule="cyclic", schedule_options={"cycles": 2}, optimizer_sd_options={"eps": 1e-6})
    settings = Settings.of(**run.settings())
    assert settings.schedule_of(sd=False) == ("cyclic", {"warmup": 0.1, "cycles": 2})
    assert settings.schedule_of(sd=True) == ("cyclic", {"warmup": 0.1, "cycles": 2})
    assert settings.optimizer_sd_options == {"eps": 1e-6}
    assert not settings.optimizer_options


def test_the_key_is_stable():
    values = {"temperature": 1, "hidden": [4], "prior_scale": 1, "epochs": 3}
    assert Run(**values).key == Run(**dict(reversed(values.items()))).key
    assert Run(temperature=1.0, hidden=(4,), prior_scale=1.0, epochs=3).key == Run(**values).key
    assert Run(epochs=Settings().epochs).key == Run().key
    code = "from posterity.experiments import Run; print(Run(epochs=3, hidden=(4,)).key)"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == Run(epochs=3, hidden=(4,)).key


def test_every_field_changes_the_key():
    changed = {
        name: Run().model_copy(update={name: value}).key
        for name, value in ODD.model_dump().items()
        if value != getattr(Run(), name)
    }
    assert len({Run().key, *changed.values()}) == len(changed) + 1


def test_the_defaults_are_those_of_fit():
    assert Settings.of(**Run().settings()) == Settings()
    assert set(TRAINING) <= set(Run.model_fields)
    left_out = set(Settings.__dataclass_fields__) - set(TRAINING)
    assert left_out == {"schedule_options", "schedule_sd_options"}  # the warm-up is added to these


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
    path.write_text(tomli_w.dumps({"epochs": "many"}))
    with pytest.raises(CorruptFileError, match="epochs"):
        Run.read(path)
