"""The schema: every setting has type, bounds, default, meaning and panel; adding one leaves stored runs as they are."""

from __future__ import annotations

import inspect
import sys

import pydantic
import pytest

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Record, Run, execute
from posterity.training import Settings, fit
from posterity.training.fields import OPTIMISER, OTHER_NAMES, PANELS, setting


def extended(schema):
    """The schema with one more option, as a later version may have it."""
    return pydantic.create_model(
        "Later", __base__=schema, momentum=(float, setting(0.5, OPTIMISER, "of nothing", ge=0))
    )


@pytest.mark.parametrize("schema", [Settings, Run])
def test_every_field_is_described_and_in_a_panel(schema):
    fields = [name for names in schema.by_panel().values() for name in names]
    assert sorted(fields) == sorted(schema.model_fields)
    assert list(schema.by_panel()) == [panel for panel in PANELS if panel in schema.by_panel()]
    assert all(field.description for field in schema.model_fields.values())


def test_fit_takes_them_all_with_their_defaults():
    parameters = inspect.signature(fit).parameters
    for name, field in Settings.model_fields.items():
        assert parameters[name].default == field.default
        assert parameters[name].annotation == field.annotation


def test_names_of_others_lead_to_ours():
    assert set(OTHER_NAMES.values()) <= set(Settings.model_fields)
    assert not {*OTHER_NAMES, *Settings.elsewhere} & set(Settings.model_fields)
    with pytest.raises(UsageError, match=r"unknown setting 'loss'\. Known"):  # a run has no likelihood to give
        Run.of(loss="mse")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 1}, "unknown setting 'epoch'.*Did you mean 'epochs'"),
        ({"learning_rate": 1e-3}, "unknown setting 'learning_rate'. Here it is 'lr'"),
        ({"device": "cuda"}, r"unknown setting 'device'.*net\.to\(device\)"),
        ({"optimizer": "adm"}, "unknown optimizer 'adm'. Did you mean 'adam'"),
        ({"epochs": 0}, r"epochs: .*greater than or equal to 1 \(given: 0\)"),
        ({"epochs": 2.5}, "epochs: .*integer"),
        ({"lr": float("nan")}, "lr: "),
        ({"warmup": 5}, r"warmup: .*less than 1, a share of the training .*\(given: 5\)"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0, auto or per-weight or per-neuron, not -1"),
        ({"temperature": "per-wieght"}, "Did you mean 'per-weight'"),
        ({"penalty_factors": {"*": 0.0}}, "penalty_factors"),
        ({"epochs": 0, "lr": -1.0}, "epochs: .*; lr: "),
    ],
)
def test_mistakes_are_explained_in_one_line(values, message):
    with pytest.raises(UsageError, match=message) as caught:
        Settings.of(**values)
    assert "\n" not in str(caught.value)


def test_a_rule_of_temperature_is_plain_values():
    settings = Settings.of(temperature=pt.warm_up(pt.per_weight(0.5), epochs=3, shape="cosine"))
    assert (settings.temperature, settings.tau) == ("per-weight", 0.5)
    assert (settings.temperature_warmup, settings.temperature_warmup_shape) == (3, "cosine")
    assert Settings.of(**settings.as_dict()) == settings
    assert settings.temperature_rule == pt.warm_up(pt.per_weight(0.5), epochs=3, shape="cosine")


def test_schedules_of_means_and_standard_deviations():
    settings = Settings(warmup=0.1, schedule_options={"floor": 0.2}, schedule_sd_options={"floor": 0.3})
    assert settings.schedule_of(sd=False) == ("cosine", {"warmup": 0.1, "floor": 0.2})
    assert settings.schedule_of(sd=True) == ("cosine", {"warmup": 0.1, "floor": 0.3})
    other = settings.model_copy(update={"schedule_sd": "constant", "schedule_sd_options": {}})
    assert other.schedule_of(sd=True) == ("constant", {"warmup": 0.1})


def test_a_key_does_not_change_when_an_option_is_added():
    later = extended(Run)
    for values in ({}, {"epochs": 5, "hidden": (3, 4), "optimizer_options": {"betas": (0.8, 0.9)}, "noise": 0.3}):
        assert later(**values).key == Run(**values).key
        assert later(**values, momentum=0.7).key != Run(**values).key
    assert Run(epochs=5).key != Run().key
    assert Run(batch_size=Run().batch_size).key == Run().key


def test_a_key_changes_with_the_version_of_the_defaults(monkeypatch):
    before = Run(epochs=5).key
    monkeypatch.setattr("posterity.experiments.run.SCHEMA", 10**6)
    assert Run(epochs=5).key != before


def test_a_checkpoint_from_before_an_option_existed_is_resumed(
    make_net, small, tmp_path, broken_off, same, monkeypatch
):
    """Written with the schema as it is, gone on with by one that has a field more."""
    options = {"epochs": 2, "batch_size": 20}
    whole = pt.fit(make_net(), small, **options)
    broken_off(make_net(), small, out=tmp_path / "run", at=4, **options)
    later = extended(Settings)
    monkeypatch.setattr(sys.modules[fit.__module__], "Settings", later)
    monkeypatch.setattr("posterity.training.settings.Settings", later)
    with pytest.raises(UsageError, match=r"momentum was 0\.5, now 0\.7"):
        fit(make_net(), small, out=tmp_path / "run", resume=True, momentum=0.7, **options)
    resumed = fit(make_net(), small, out=tmp_path / "run", resume=True, **options)
    assert same(dict(resumed.net.state_dict()), dict(whole.net.state_dict()))


RUN = {"dataset": "digits", "model": "mlp", "hidden": (8,), "epochs": 1, "train_rows": 100}


def test_a_run_whose_config_lacks_an_option_has_its_default(tmp_path):
    done = execute(Run(**RUN), tmp_path / "run", samples=2)
    config = tmp_path / "run" / "config.toml"
    lines = config.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("kl_decay", "schema", "augmentation", "val_samples"))]
    assert len(kept) < len(lines)
    config.write_text("\n".join(kept))
    again = Record.read(tmp_path / "run")
    assert again.run == done.run
    assert again.finished
    assert execute(done.run, tmp_path / "run", resume=True, samples=2).summary == done.summary


def test_a_state_that_lacks_settings_is_resumed_with_their_defaults(
    make_net, small, tmp_path, broken_off, same, newest
):
    options = {"epochs": 2, "batch_size": 20}
    whole = pt.fit(make_net(), small, **options)
    out = tmp_path / "run"
    broken_off(make_net(), small, out=out, at=4, **options)
    state = newest(out)
    for name in ("kl_decay", "penalty_factors", "val_samples"):
        del state["settings"][name]
    pt.storage.Checkpoints(out / "checkpoint").write(state["step"], state)
    for change in ({"kl_decay": 0.5}, {"val_samples": 3}):
        with pytest.raises(UsageError, match=next(iter(change))):
            pt.fit(make_net(), small, out=out, resume=True, **options, **change)
    resumed = pt.fit(make_net(), small, out=out, resume=True, **options)
    assert same(dict(resumed.net.state_dict()), dict(whole.net.state_dict()))
