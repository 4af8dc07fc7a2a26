"""`posterity config`: what a run is, from flags, files and folders."""

import pytest
from test_cli_app import check_usage_error

from posterity.experiments import Run
from posterity.experiments.configuration import annotated, resolve

FLAGS = (
    "--model", "mlp", "--hidden", "8,8", "--optimizer", "sgd", "--optimizer-options", "momentum=0.8", "--epochs", 4
)  # fmt: skip
RUN = Run(model="mlp", hidden=(8, 8), optimizer="sgd", optimizer_options={"momentum": 0.8}, epochs=4)


def test_what_is_shown_is_read_again(cli, tmp_path):
    done = cli("config", "show", *FLAGS)
    assert done.code == 0, done.err
    for line in (
        'optimizer = "sgd"  # default: not set', "hidden = [  # default: not set",
        "[optimizer_options]  # default: not set", "batch_size = 100\n",
    ):  # fmt: skip
        assert line in done.out
    (tmp_path / "my.toml").write_text(done.out)
    assert Run.read(tmp_path / "my.toml") == RUN
    assert cli("config", "validate", "my.toml", "--json").json == {"key": RUN.key, "planned": True}
    on_top = cli("config", "show", "my.toml", "--seed", 3, "--brief")
    (tmp_path / "brief.toml").write_text(on_top.out)
    assert "batch_size" not in on_top.out
    assert Run.read(tmp_path / "brief.toml") == RUN.model_copy(update={"seed": 3})


@pytest.mark.parametrize(
    "run",
    [
        Run(),
        Run(penalty="l2", penalty_factors={"epochs": 0.5, "*": 2.0}, deterministic=("0.*",)),  # a pattern like a field
        Run(optimizer="adam", optimizer_options={"betas": (0.5, 0.9)}, epochs=3, temperature=1),
    ],
)
def test_all_that_differs_is_marked_and_survives(run, tmp_path):
    for whole in (True, False):
        (tmp_path / "run.toml").write_text(annotated(run, whole=whole))
        assert Run.read(tmp_path / "run.toml") == run
        marked = [line for line in annotated(run, whole=whole).splitlines() if "# default" in line]
        assert sorted(line.strip("[").split("]")[0].split(" ")[0] for line in marked) == sorted(run.changed_from(Run()))


def test_what_rules_make_of_it(cli):
    rules = cli("config", "show", *FLAGS, "--val-fraction", 0.5, "--json").json["by_rule"]
    assert rules["train_rows"] + rules["val_rows"] == 1437
    assert (rules["num_weights"], rules["epochs"], rules["steps"]) == (682, 4, 4 * 8)
    assert rules["rates"]["mean"] == 0.01
    assert rules["temperature"] == "from 0 up to at most 0.09, by the data"
    fixed = cli("config", "show", *FLAGS, "--temperature", "per-weight", "--tau", 0.04, "--json").json["by_rule"]
    assert float(fixed["temperature"]) == pytest.approx(0.04 * fixed["train_rows"] / 682, rel=1e-2)
    assert "682 weights, 4 epochs of 8 steps" in cli("config", "show", *FLAGS, "--val-fraction", 0.5).err


def test_data_that_are_not_here_are_not_fetched(cli, monkeypatch):
    monkeypatch.setattr("posterity.experiments.configuration._is_here", lambda name: False)
    assert resolve(RUN) is None
    done = cli("config", "validate", "--dataset", "mnist")
    assert done.code == 0
    assert "posterity data fetch mnist" in done.err
    check_usage_error(cli("config", "validate", "--optimizer", "sdg"), "Did you mean 'sgd'?")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("epoch = 3", "Did you mean 'epochs'?"), ('epochs = "3"', "epochs: Input should be a valid integer"),
        ('optimizer = "sdg"', "Did you mean 'sgd'?"), ("hidden = 8", "hidden"), ("lr = -1", "lr"), ("lr = ", "my.toml"),
        ("seed = true", "seed takes no truth value"), ('temperature = 1\ntau = 3', "tau (3"), ('model = 3', "model"),
        ('optimizer = "sgd"\n[optimizer_options]\nmomentun = 0.8', "Did you mean 'momentum'?"),
    ],
)  # fmt: skip
def test_mistakes_have_the_nearest_name(cli, tmp_path, text, part):
    (tmp_path / "my.toml").write_text(text)
    for command in ("validate", "show"):
        check_usage_error(cli("config", command, "my.toml"), part)


def test_differences(cli, train, tmp_path):
    assert train("a").code == 0
    (tmp_path / "b.toml").write_text(cli("config", "show", "a", "--lr", 0.5).out)
    assert cli("config", "diff", "a", "b.toml", "--json").json == {"lr": {"a": None, "b.toml": 0.5}}
    assert "not set" in cli("config", "diff", "a", "b.toml").out
    against = cli("config", "diff", "a", "--json").json
    assert against["hidden"] == {"a": [16], "default": None}
    assert set(against) == {"model", "hidden", "epochs"}
    assert "no difference" in cli("config", "diff", "a", "a").out
    check_usage_error(cli("config", "diff", "a", "nosuch"), "nosuch")
    (tmp_path / "empty").mkdir()
    check_usage_error(cli("config", "show", "empty"), "there is no run in empty")


def test_a_training_starts_from_a_folder_or_a_file(train, cli, tmp_path):
    assert train("a").code == 0
    for number, source in enumerate(("a", "a/config.toml")):
        done = cli("train", "--config", source, "--seed", 5, "--quiet", "--out", f"b{number}")
        assert done.code == 0, done.err
        assert Run.read(tmp_path / f"b{number}" / "config.toml").changed_from(Run.read(tmp_path / "a/config.toml")) == {
            "seed": (0, 5)
        }
