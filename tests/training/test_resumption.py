"""Exact resumption in one process: whatever the step a run breaks off at, it ends in the same bits."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import CorruptFileError, UsageError

EPOCHS, BATCH = 3, 16  # 60 rows: 4 steps an epoch, the last of 12 rows; 12 steps in all


class Break(Exception):
    """What a crash looks like from inside."""


class Crash(pt.Callback):
    """Breaks off in step `step`, or at the end of epoch `epoch`, or after the last step."""

    def __init__(self, step=None, epoch=None, end=False):
        self.step, self.epoch, self.end = step, epoch, end
        self.count = 0

    def on_step(self, training, loss):
        if training.step == self.step:
            raise Break
        self.count += 1

    def on_epoch(self, training, record):
        if record["epoch"] == self.epoch:
            raise Break

    def on_end(self, training):
        if self.end:
            raise Break

    def state(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = state["count"]


KINDS = {
    "adam": {"settings": {"optimizer": "adam"}, "net": {}},
    "sgd, dropout": {"settings": {"optimizer": "sgd", "lr": 1e-2, "clip": 1.0}, "net": {"dropout": True}},
    "radam, batch norm": {"settings": {"optimizer": "radam", "schedule": "step"}, "net": {"norm": True}},
    "rmsprop, samples": {"settings": {"optimizer": "rmsprop", "samples": 3}, "net": {"dropout": True}},
    "amsgrad, patience": {"settings": {"optimizer": "amsgrad", "patience": 1, "lr": 0.3}, "net": {"norm": True}},
    "adagrad, point": {"settings": {"optimizer": "adagrad"}, "net": {"posterior": "point"}},
    "adamw, deterministic": {
        "settings": {"optimizer": "adamw", "optimizer_options": {"betas": (0.8, 0.9)}, "kl_decay": 0.5},
        "net": {"select": "1.*", "dropout": True},
    },
    "swa, batch norm": {
        "settings": {"average": "swa", "average_start": 0.3, "average_every": 2},
        "net": {"norm": True, "dropout": True, "select": "1.*"},
    },
    "hwa, restart": {"settings": {"average": "hwa", "average_every": 3, "average_restart": True}, "net": {}},
    "hwa, low rank": {
        "settings": {"average": "hwa", "average_every": 1, "covariance": "low_rank", "average_rank": 3},
        "net": {"norm": True},
    },
    "own class": {"settings": {"optimizer": torch.optim.NAdam, "optimizer_sd": torch.optim.Adamax}, "net": {}},
    "own factory": {"settings": {"optimizer": partial(torch.optim.SGD, momentum=0.9, nesterov=True)}, "net": {}},
    "low rank, swa": {"settings": {"average": "swa"}, "net": {"posterior": "low_rank", "rank": 3}},
    "crop-flip": {"settings": {"augmentation": "crop-flip"}, "net": {"norm": True}},
    "warm-up": {"settings": {"temperature": pt.warm_up(pt.per_weight(0.5), epochs=2.5, shape="cosine")}, "net": {}},
}


@pytest.fixture
def go(make_net, small, small_val):
    def run(kind, out, crash=None, **options):
        net = make_net(**KINDS[kind]["net"])
        settings = {"epochs": EPOCHS, "batch_size": BATCH, "checkpoint_seconds": 0, **KINDS[kind]["settings"]}
        return pt.fit(net, small, small_val, out=out, callbacks=[crash or Crash()], **{**settings, **options})

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_after_any_step(kind, go, tmp_path, newest, records, same, checkpoint_bytes):
    whole = go(kind, tmp_path / "whole")
    steps = whole.history[-1]["step"]
    crashes = [Crash(step=k) for k in sorted({0, 1, 2, 3, 4, 5, steps - 1})]
    crashes += [Crash(epoch=1), Crash(epoch=whole.history[-1]["epoch"]), Crash(end=True)]
    for number, crash in enumerate(crashes):
        out = tmp_path / str(number)
        with pytest.raises(Break):
            go(kind, out, crash)
        result = go(kind, out, resume=True)
        assert same(newest(out), newest(tmp_path / "whole"))  # weights, optimiser, generators, place, callbacks
        assert same(dict(result.net.state_dict()), dict(whole.net.state_dict()))
        assert records(result.history) == records(whole.history) == records(out / "history.jsonl")
        assert result.stopped == whole.stopped
        assert result.best_epoch == whole.best_epoch
        assert (result.averaged is None) == ("average" not in KINDS[kind]["settings"])
        if result.averaged is not None:
            assert same(dict(result.averaged.state_dict()), dict(whole.averaged.state_dict()))
        assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")


def test_a_patience_run_did_stop_early(go, tmp_path):
    """Else the one above would not test what it says."""
    result = go("amsgrad, patience", tmp_path / "run", epochs=30)
    assert "no better" in result.stopped
    assert result.best_epoch < result.history[-1]["epoch"]


def test_resumed_again_and_again(go, tmp_path, newest, same, records):
    go("adam", tmp_path / "whole")
    out = tmp_path / "run"
    for step in (0, 1, 4, 4, 5, 11):
        with pytest.raises(Break):
            go("adam", out, Crash(step=step), resume=out.exists())
    go("adam", out, resume=True)
    assert same(newest(out), newest(tmp_path / "whole"))
    assert records(out / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


def test_checkpoints_are_rare_unless_asked_for(go, tmp_path, newest, same):
    """With the default of 30 s the crash loses all steps, and they are done again."""
    go("adam", tmp_path / "whole")
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=9), checkpoint_seconds=30)
    assert newest(tmp_path / "run")["step"] == 0
    go("adam", tmp_path / "run", resume=True, checkpoint_seconds=30)
    assert same(newest(tmp_path / "run"), newest(tmp_path / "whole"))


def test_a_finished_run_is_resumed_at_once(go, tmp_path, records, checkpoint_bytes):
    first = go("adam", tmp_path / "run")
    before = checkpoint_bytes(tmp_path / "run")
    crash = Crash(step=0)
    again = go("adam", tmp_path / "run", crash, resume=True)
    assert crash.count == EPOCHS * 4  # restored, not counted up
    assert records(again.history) == records(first.history)
    assert torch.equal(again.net.posterior.mean, first.net.posterior.mean)
    assert checkpoint_bytes(tmp_path / "run") == before


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 0.5},
        {"epochs": 2},
        {"seed": 1},
        {"temperature": 0.5},
        {"temperature": pt.per_weight()},
        {"optimizer_options": {"eps": 1e-6}},
    ],
)
def test_other_settings_are_refused_by_name(go, tmp_path, change, checkpoint_bytes):
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=2))
    before = checkpoint_bytes(tmp_path / "run")
    with pytest.raises(UsageError, match=next(iter(change))):
        go("adam", tmp_path / "run", resume=True, **change)
    assert checkpoint_bytes(tmp_path / "run") == before


def test_a_progress_display_may_come_and_go(go, tmp_path, capsys, checkpoint_bytes):
    go("adam", tmp_path / "whole")
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=5), progress=True)
    go("adam", tmp_path / "run", resume=True)
    assert checkpoint_bytes(tmp_path / "run") == checkpoint_bytes(tmp_path / "whole")
    assert "epoch 1/3" in capsys.readouterr().err


def test_another_number_of_callbacks_is_refused(go, tmp_path, make_net, small, small_val):
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=2))
    with pytest.raises(UsageError, match="callbacks"):
        pt.fit(
            make_net(), small, small_val, out=tmp_path / "run", resume=True,
            epochs=EPOCHS, batch_size=BATCH, optimizer="adam",
        )  # fmt: skip


def test_other_data_is_refused(go, tmp_path, make_net, small_val):
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=2))
    with pytest.raises(UsageError, match="data it began with"):
        pt.fit(
            make_net(), small_val, small_val, out=tmp_path / "run", resume=True, callbacks=[Crash()],
            epochs=EPOCHS, batch_size=BATCH, optimizer="adam",
        )  # fmt: skip


def test_data_of_the_same_length_with_other_values_are_refused(go, tmp_path, make_net, small, small_val):
    with pytest.raises(Break):
        go("adam", tmp_path / "run", Crash(step=2))
    other = small.x.clone()
    other[3, 0, 4, 4] += 1
    for train, val in ((pt.Dataset(other, small.y, "classification", 10), small_val), (small, small)):
        with pytest.raises(UsageError, match="data it began with"):
            pt.fit(
                make_net(), train, val, out=tmp_path / "run", resume=True, callbacks=[Crash()],
                epochs=EPOCHS, batch_size=BATCH, optimizer="adam",
            )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "radam"])
def test_deterministic_channels_last_weights(small, tmp_path, same, optimizer):
    """Fused optimisers run over raw memory: restored moments must lie as the weights do."""

    def run(out, crash=None, **options):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 10))
        net = pt.bayesian(model.to(memory_format=torch.channels_last), select="4.*", seed=0)
        callbacks = [crash or Crash()]
        return pt.fit(
            net, small, out=out, optimizer=optimizer, epochs=2, checkpoint_seconds=0, callbacks=callbacks, **options
        )

    whole = run(tmp_path / "whole", batch_size=20)
    with pytest.raises(Break):
        run(tmp_path / "run", Crash(step=4), batch_size=20)
    again = run(tmp_path / "run", resume=True, batch_size=20)
    assert same(dict(again.net.state_dict()), dict(whole.net.state_dict()))


def test_a_stop_in_a_step_is_recorded_once(make_net, small, tmp_path, newest, records):
    class Stop(pt.Callback):
        def on_step(self, training, loss):
            if training.step == 5:
                training.stop("enough")

    def run(**options):
        return pt.fit(
            make_net(), small, out=tmp_path / "run", epochs=9, batch_size=BATCH, checkpoint_seconds=0,
            callbacks=[Stop()], **options,
        )  # fmt: skip

    first = run()
    assert newest(tmp_path / "run")["stopped"] == "enough"
    again = run(resume=True)
    assert records(again.history) == records(first.history) == records(tmp_path / "run" / "history.jsonl")
    assert [r["epoch"] for r in first.history] == [1, 2]


def test_lines_of_lost_work_and_half_lines_are_cut_off(go, tmp_path, records):
    go("adam", tmp_path / "whole")
    out = tmp_path / "run"
    with pytest.raises(Break):
        go("adam", out, Crash(step=6))
    with (out / "history.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 2, "lost": True}) + "\n" + '{"epoch": 3, "nl')
    go("adam", out, resume=True)
    assert records(out / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


@pytest.mark.parametrize("damage", ["missing", "cut", "garbled"])
def test_a_damaged_history_is_refused(go, tmp_path, damage):
    out = tmp_path / "run"
    with pytest.raises(Break):
        go("adam", out, Crash(step=9))
    file = out / "history.jsonl"
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-9] if damage == "cut" else b"x" + content[1:])
    with pytest.raises(CorruptFileError, match="history"):
        go("adam", out, resume=True)


def test_a_run_that_lost_its_checkpoints_begins_anew(go, tmp_path, records, capsys):
    go("adam", tmp_path / "run")
    before = records(tmp_path / "run" / "history.jsonl")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    go("adam", tmp_path / "run", resume=True, progress=True)
    assert "has no checkpoint yet: the run begins anew" in " ".join(capsys.readouterr().err.split())
    assert records(tmp_path / "run" / "history.jsonl") == before


@pytest.mark.parametrize("name", ["crop", "flip"])
@pytest.mark.parametrize("at", [5, 8])
def test_augmentation_is_resumed_in_the_middle_of_an_epoch(check_resumption, make_net, small, tmp_path, name, at):
    options = {"epochs": EPOCHS, "batch_size": BATCH}
    whole = check_resumption(make_net, small, at, tmp_path / "run", augmentation=name, **options)
    assert not torch.equal(whole.net.posterior.mean, pt.fit(make_net(), small, **options).net.posterior.mean)
