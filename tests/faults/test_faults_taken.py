"""A run whose directory is removed, or made anew and taken by another, writes nothing more there."""

from __future__ import annotations

import contextlib
import shutil
import sys

import pytest

import posterity as pt
from posterity.core.errors import PosterityError
from posterity.experiments import Run, execute
from posterity.storage import RunDirectory
from posterity.training import Training

RUN = Run(dataset="digits", model="mlp", hidden=(8,), train_rows=100, batch_size=30, epochs=3)  # 3 steps an epoch
CONTENTS = {"config.toml": "of another", "history.jsonl": '{"of": "another"}\n', "summary.json": "{}"}
LOST = "no longer this run's: it was removed, or made anew by another process; nothing more is written there"


class Thief:
    """Takes the directory away and, unless it only `removes` it, makes it anew and holds it."""

    def __init__(self, folder, *, removes):
        self.folder, self.removes = folder, removes
        self.stack = contextlib.ExitStack()

    def __call__(self):
        shutil.rmtree(self.folder)
        if not self.removes:
            self.stack.enter_context(RunDirectory(self.folder))
            for name, text in CONTENTS.items():
                (self.folder / name).write_text(text)

    def check(self):
        if self.removes:
            assert not self.folder.exists()
        else:
            found = {path.name: path.read_text() for path in self.folder.iterdir() if path.name != ".lock"}
            assert found == CONTENTS


@pytest.fixture(params=["removed", "made anew"])
def thief(request, tmp_path):
    made = Thief(tmp_path / "run", removes=request.param == "removed")
    with made.stack:
        yield made


class Strike(pt.Callback):
    """Lets the thief come before step `step`, or when epoch `epoch` has been recorded."""

    kept = False

    def __init__(self, thief, step=None, epoch=None):
        self.thief, self.step, self.epoch = thief, step, epoch

    def on_step(self, training, loss):
        if training.step == self.step:
            self.thief()

    def on_epoch(self, training, record):
        if record["epoch"] == self.epoch:
            self.thief()


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [({"step": 4}, 0), ({"step": 4}, 1000), ({"step": 5}, 0), ({"epoch": 2}, 1000), ({"epoch": 3}, 1000)],
    ids=["checkpoint", "history, later", "history", "history at once", "history of the last epoch"],
)
def test_nothing_of_fit(make_net, small, thief, moment, seconds):
    strike = Strike(thief, **moment)
    with pytest.raises(PosterityError, match=LOST):
        pt.fit(
            make_net(), small, out=thief.folder, epochs=3, batch_size=20, checkpoint_seconds=seconds, callbacks=[strike]
        )
    thief.check()


def test_no_last_checkpoint(make_net, small, thief):
    """Lost after the last line of the history: a checkpoint would have followed."""

    class Late(pt.Callback):
        kept = False

        def on_start(self, training):
            append = training.history.append

            def then(record):
                append(record)
                if record["epoch"] == 3:
                    thief()

            training.history.append = then

    with pytest.raises(PosterityError, match=LOST):
        pt.fit(make_net(), small, out=thief.folder, epochs=3, callbacks=[Late()])
    thief.check()


def test_no_summary_and_no_predictions(thief, monkeypatch):
    """Lost while the test data are predicted, when the training is done."""
    module = sys.modules[execute.__module__]
    evaluate = module.evaluate

    def slow(*arguments, **options):
        found = evaluate(*arguments, **options)
        thief()
        return found

    monkeypatch.setattr(module, "evaluate", slow)
    with pytest.raises(PosterityError, match=LOST):
        execute(RUN, thief.folder, samples=2)
    thief.check()


def test_no_evaluation_of_anothers_run(thief, monkeypatch):
    """Lost before the network is read back from its last checkpoint."""
    module = sys.modules[execute.__module__]
    carry_out = module.carry_out

    def then(*arguments, **options):
        result = carry_out(*arguments, **options)
        thief()
        return result

    monkeypatch.setattr(module, "carry_out", then)
    with pytest.raises(PosterityError, match=LOST):
        execute(RUN, thief.folder, samples=2)
    thief.check()


def test_nothing_of_a_run(thief, monkeypatch):
    step = Training.train_step

    def struck(self, index):
        if self.step == 4:
            thief()
        return step(self, index)

    monkeypatch.setattr(Training, "train_step", struck)
    with pytest.raises(PosterityError, match=LOST):
        execute(RUN, thief.folder, samples=2)
    thief.check()
