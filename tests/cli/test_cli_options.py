"""Options of optimisers and schedules as flags, in the config, and on resuming."""

from posterity.cli.options import parse
from posterity.experiments import Run


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
