"""More epochs than a run was begun with: what becomes of rate, history, average and config; what is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Record, Run, execute, load_run
from posterity.training import ProlongedWarning

BATCH = 20  # 60 rows: 3 steps an epoch
CONSTANT = {"schedule": "constant", "temperature": 0.05, "batch_size": BATCH, "checkpoint_seconds": 0}


class Watch(pt.Callback):
    """Rates and means after every step."""

    kept = False

    def __init__(self):
        self.rates, self.means = {}, {}

    def on_step_end(self, training):
        self.rates[training.step] = training.groups[0].lr
        self.means[training.step] = training.net.posterior.mean.detach().double().numpy().copy()


def prolonged(before, now, done):
    return pytest.warns(ProlongedWarning, match=f"prolonged from {before} to {now} epochs, of which {done} are done")


@pytest.mark.parametrize(
    ("begun", "settings", "net"),
    [
        ("finished", {}, {}),
        ("unfinished", {}, {"norm": True, "dropout": True}),
        ("finished", {"optimizer": "yellowfin"}, {"dropout": True}),
        ("finished", {"augmentation": "crop"}, {"norm": True}),
        ("unfinished", {"augmentation": "crop"}, {}),
        ("finished", {"learn_prior": True}, {}),
        ("unfinished", {"patience": 50}, {}),  # a finished one goes on from its best weights: see below
    ],
    ids=str,
)
def test_where_nothing_depends_on_the_total_it_is_the_run_at_once(
    begun, net, settings, make_net, small, small_val, tmp_path, broken_off, same, newest, records, checkpoint_bytes
):
    data, common = (small, small_val), {**CONSTANT, **settings}
    whole = pt.fit(make_net(**net), *data, out=tmp_path / "whole", epochs=5, **common)
    out = tmp_path / "run"
    if begun == "finished":
        pt.fit(make_net(**net), *data, out=out, epochs=2, **common)
    else:
        broken_off(make_net(**net), *data, out=out, at=5, epochs=2, **common)
    with prolonged(2, 5, 2 if begun == "finished" else 1):
        more = pt.fit(make_net(**net), *data, out=out, epochs=5, resume=True, **common)
    assert same(dict(more.net.state_dict()), dict(whole.net.state_dict()))
    assert records(more.history) == records(whole.history) == records(out / "history.jsonl")
    assert more.stopped == "epochs"
    assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")
    assert same(newest(out), newest(tmp_path / "whole"))


def test_the_rate_goes_on_where_the_longer_course_has_it(make_net, small, tmp_path, records):
    common, course, before, after = {"batch_size": BATCH, "lr": 0.01}, Watch(), Watch(), Watch()
    pt.fit(make_net(), small, epochs=4, callbacks=[course], **common)
    first = pt.fit(make_net(), small, epochs=2, out=tmp_path / "run", callbacks=[before], **common)
    with prolonged(2, 4, 2):
        second = pt.fit(make_net(), small, epochs=4, out=tmp_path / "run", resume=True, callbacks=[after], **common)
    assert before.rates[6] < 0.07 * 0.01  # a cosine nearly at its end
    assert after.rates == {step: course.rates[step] for step in range(7, 13)}
    assert after.rates[7] > before.rates[6]
    assert records(second.history)[:2] == records(first.history)
    assert [r["epoch"] for r in second.history] == [1, 2, 3, 4]
    assert second.history[2]["seconds"] >= first.history[-1]["seconds"]


def test_an_average_keeps_its_snapshots_and_takes_those_after_the_longer_trainings_start(make_net, small, tmp_path):
    common = {"batch_size": BATCH, "average": "swa", "average_every": 1, "average_start": 0.5, "out": tmp_path / "run"}
    watch = Watch()
    first = pt.fit(make_net(), small, epochs=2, callbacks=[watch], **common)
    np.testing.assert_allclose(
        first.averaged.posterior.mean.detach(), np.mean([watch.means[k] for k in (4, 5, 6)], 0), rtol=1e-5, atol=1e-7
    )
    with prolonged(2, 6, 2):
        second = pt.fit(make_net(), small, epochs=6, resume=True, callbacks=[watch], **common)
    steps = (4, 5, 6, *range(10, 19))
    expected = np.mean([watch.means[k] for k in steps], 0)
    np.testing.assert_allclose(second.averaged.posterior.mean.detach(), expected, rtol=1e-5, atol=1e-7)


def test_while_it_goes_on_there_is_no_average_of_the_shorter_run(make_net, small, tmp_path, broken_off, newest):
    common = {"batch_size": BATCH, "average": "swa", "out": tmp_path / "run"}
    pt.fit(make_net(), small, epochs=2, **common)
    assert newest(tmp_path / "run")["averaged"] is not None
    with prolonged(2, 4, 2):
        broken_off(make_net(), small, at=8, epochs=4, resume=True, **common)
    state = newest(tmp_path / "run")
    assert state["step"] == 8
    assert state["averaged"] is None
    assert state["stopped"] == ""


def test_a_finished_run_goes_on_from_its_best_weights(make_net, small, small_val, tmp_path):
    common = {**CONSTANT, "patience": 50, "optimizer": "adam", "lr": 0.3, "temperature": 0.0, "out": tmp_path / "run"}
    first = pt.fit(make_net(), small, small_val, epochs=4, **common)
    assert first.best_epoch < 4  # else there is nothing to see
    watch = Watch()

    class Keep(pt.Callback):
        kept = False

        def on_start(self, training):
            watch.means[0] = training.net.posterior.mean.detach().clone()

    with pytest.warns(ProlongedWarning, match="goes on from the best weights, which were restored at its end"):
        second = pt.fit(make_net(), small, small_val, epochs=6, resume=True, callbacks=[Keep()], **common)
    assert torch.equal(watch.means[0], first.net.posterior.mean)
    assert len(second.history) == 6
    assert second.best_epoch in (first.best_epoch, 5, 6)


@pytest.mark.parametrize("at", [6, 7, 11])
def test_broken_off_again_it_is_resumed_to_the_last_bit(make_net, small, tmp_path, broken_off, same, records, at):
    """Before the first step of the longer run, after it, and in the middle of an epoch."""
    out = tmp_path / "run"
    whole = pt.fit(make_net(), small, epochs=5, **CONSTANT)
    pt.fit(make_net(), small, out=out, epochs=2, **CONSTANT)
    with prolonged(2, 5, 2):
        broken_off(make_net(), small, out=out, at=at, epochs=5, resume=True, **CONSTANT)
    if at == 6:  # no checkpoint says so yet
        with prolonged(2, 5, 2):
            again = pt.fit(make_net(), small, out=out, epochs=5, resume=True, **CONSTANT)
    else:
        again = pt.fit(make_net(), small, out=out, epochs=5, resume=True, **CONSTANT)
    assert same(dict(again.net.state_dict()), dict(whole.net.state_dict()))
    assert records(out / "history.jsonl") == records(whole.history)


def test_what_is_refused(make_net, small, small_val, tmp_path, checkpoint_bytes):
    early = {**CONSTANT, "patience": 1, "lr": 0.5, "out": tmp_path / "early"}
    assert "no better" in pt.fit(make_net(), small, small_val, epochs=20, **early).stopped
    before = checkpoint_bytes(tmp_path / "early")
    with pytest.raises(UsageError, match=r"the run has stopped \(no better .*\): more epochs do not change that"):
        pt.fit(make_net(), small, small_val, epochs=30, resume=True, **early)
    assert checkpoint_bytes(tmp_path / "early") == before
    pt.fit(make_net(), small, out=tmp_path / "run", epochs=3, **CONSTANT)
    with pytest.raises(UsageError, match="epochs was 3, now 2"):
        pt.fit(make_net(), small, out=tmp_path / "run", epochs=2, resume=True, **CONSTANT)
    with pytest.raises(UsageError, match=r"lr was None, now 0\.1"):  # and not a word of the prolonging
        pt.fit(make_net(), small, out=tmp_path / "run", epochs=5, resume=True, lr=0.1, **CONSTANT)


RUN = Run(dataset="digits", model="mlp", hidden=(8,), epochs=1, schedule="constant", train_rows=300, batch_size=50)
RUN = RUN.model_copy(update={"temperature": 0.05})  # nothing that depends on the length


def longer(run, epochs):
    return run.model_copy(update={"epochs": epochs})


def test_a_run_is_prolonged_with_its_config_and_its_results(tmp_path, checkpoint_bytes, records):
    whole = execute(longer(RUN, 3), tmp_path / "whole", samples=2)
    first = execute(RUN, tmp_path / "run", samples=2)
    with prolonged(1, 3, 1):
        more = execute(longer(RUN, 3), tmp_path / "run", samples=2, resume=True)
    assert more.run == whole.run
    assert more.finished
    assert more.summary["key"] == whole.summary["key"] != first.summary["key"]
    assert more.evaluation == whole.evaluation
    assert records(more.history) == records(whole.history)
    assert checkpoint_bytes(tmp_path / "run") == checkpoint_bytes(tmp_path / "whole")
    assert (tmp_path / "run" / "config.toml").read_bytes() == (tmp_path / "whole" / "config.toml").read_bytes()


def test_a_run_that_is_being_prolonged_is_not_finished(tmp_path, monkeypatch, records):
    whole = execute(longer(RUN, 3), tmp_path / "whole", samples=2)
    execute(RUN, tmp_path / "run", samples=2)
    step = pt.training.Training.train_step

    def fail(self, index):
        if self.step == 13:
            raise KeyboardInterrupt
        return step(self, index)

    monkeypatch.setattr(pt.training.Training, "train_step", fail)
    with prolonged(1, 3, 1), pytest.raises(KeyboardInterrupt):
        execute(longer(RUN, 3), tmp_path / "run", samples=2, resume=True, checkpoint_seconds=0)
    monkeypatch.undo()
    half = Record.read(tmp_path / "run")
    assert half.run.epochs == 3
    assert not half.finished
    assert not load_run(tmp_path / "run").finished
    again = execute(half.run, tmp_path / "run", samples=2, resume=True)
    assert again.finished
    assert again.evaluation == whole.evaluation
    assert records(again.history) == records(whole.history)


def test_a_prolonging_that_is_refused_leaves_the_config(tmp_path):
    stopping = RUN.model_copy(update={"epochs": 20, "patience": 1, "optimizer": "adam", "lr": 1.0, "val_fraction": 0.1})
    assert "no better" in execute(stopping, tmp_path / "run", samples=2).summary["stopped"]
    files = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    for changed, message in (
        ({"epochs": 30}, "more epochs do not change that"),
        ({"epochs": 10}, "epochs is 20 there, 10 here"),
        ({"epochs": 30, "lr": 0.5}, r"lr is 1\.0 there, 0\.5 here"),
    ):
        with pytest.raises(UsageError, match=message):
            execute(stopping.model_copy(update=changed), tmp_path / "run", samples=2, resume=True)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == files


@pytest.mark.filterwarnings("default::posterity.training.ProlongedWarning")
def test_on_the_command_line(train, cli, tmp_path, checkpoint_bytes):
    flags = ("--schedule", "constant", "--temperature", "0.05")
    assert train("whole", *flags, epochs=3).code == 0
    assert train("run", *flags, epochs=1).code == 0
    fewer = cli("train", "--out", "whole", "--resume", "--epochs", 2, "--quiet")
    assert (fewer.code, "epochs is 3 there, 2 here" in fewer.err) == (2, True)
    done = cli("train", "--out", "run", "--resume", "--epochs", 3, "--quiet", "--json")
    assert done.code == 0, done.err
    assert re.search(r"warning: prolonged from 1 to 3 epochs, .* the rate goes on as in a training of 3", done.err)
    assert done.json["key"] == json.loads((tmp_path / "whole" / "summary.json").read_text())["key"]
    assert checkpoint_bytes(tmp_path / "run") == checkpoint_bytes(tmp_path / "whole")
    again = cli("train", "--out", "run", "--resume", "--quiet")
    assert (again.code, "prolonged" in again.err) == (0, False)
