"""execute: trains, resumes, prolongs, evaluates and stores; nothing is done twice."""

from __future__ import annotations

import sys

import pytest

from posterity.core.errors import CorruptFileError, UsageError
from posterity.experiments import Record, Run, evaluate_run, execute
from posterity.storage import RunDirectory, merge_json
from posterity.training import ProlongedWarning, Training

module = sys.modules["posterity.experiments.execute"]  # the package has the function under this name
RUN = Run(
    dataset="digits", model="mlp", hidden=(8,), epochs=2, train_rows=200, lr=1e-2, temperature=0.1, val_fraction=0.1
)
FAST = {"samples": 2}


def changed(**values):
    return Run.of(**{**RUN.model_dump(), **values})


def times(folder):
    """When each of the files below was written last; whoever looks inside takes the lock."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {p.relative_to(folder): p.stat().st_mtime_ns for p in files}


@pytest.fixture
def interrupt(monkeypatch):
    """Let a training fail before its step of this number."""

    def at(step):
        plain = Training.train_step

        def train_step(self, index):
            if self.step == step:
                raise RuntimeError("the power is gone")
            return plain(self, index)

        monkeypatch.setattr(Training, "train_step", train_step)

    return at


def test_it_trains_evaluates_and_stores(tmp_path):
    record = execute(RUN, tmp_path / "run", **FAST)
    assert record.run == RUN
    assert record.finished
    assert record.summary["key"] == RUN.key
    assert record.summary["stopped"] == "epochs"
    assert record.summary["num_data"] == 180
    assert len(record.history) == 2
    assert record.summary["last"] == record.history[-1]
    assert record.evaluation["samples"] == 2
    assert 0 <= record.test["accuracy"] <= 1
    assert Record.read(tmp_path / "run") == record


def test_after_an_interruption_it_goes_on_to_the_same_bytes(
    tmp_path, interrupt, monkeypatch, checkpoint_bytes, records
):
    run = changed(optimizer="adabayes", augmentation="crop", patience=3, average="swa", average_every=1)
    execute(run, tmp_path / "whole", **FAST)
    interrupt(3)
    with pytest.raises(RuntimeError):
        execute(run, tmp_path / "cut", checkpoint_seconds=0, **FAST)
    monkeypatch.undo()
    cut = Record.read(tmp_path / "cut")
    assert not cut.finished
    assert len(cut.history) == 1
    again = execute(run, tmp_path / "cut", resume=True, **FAST)
    whole = Record.read(tmp_path / "whole")
    assert checkpoint_bytes(tmp_path / "cut") == checkpoint_bytes(tmp_path / "whole")
    assert records(again.history) == records(whole.history)
    assert again.evaluation == whole.evaluation


def test_a_finished_run_is_read(tmp_path, monkeypatch):
    first = execute(RUN, tmp_path / "run", samples=3, ood=["noise"])
    before = times(tmp_path / "run")
    monkeypatch.setattr(module, "build_data", None)  # it does not even look at the data
    assert execute(RUN, tmp_path / "run", resume=True, samples=3, ood=["noise"]) == first
    assert execute(RUN, tmp_path / "run", resume=True, samples=3) == first
    assert times(tmp_path / "run") == before


def test_it_is_evaluated_again_when_something_else_is_asked_for(tmp_path):
    folder = tmp_path / "run"
    first = execute(RUN, folder, **FAST)
    before = times(folder)
    more = execute(RUN, folder, resume=True, samples=5)
    assert more.evaluation["samples"] == 5
    assert more.test != first.test
    elsewhere = execute(RUN, folder, resume=True, samples=5, ood=["noise"])
    assert elsewhere.evaluation["ood"].keys() == {"noise"}
    assert elsewhere.test == more.test
    assert execute(RUN, folder, resume=True, samples=4).evaluation["ood"].keys() == {"noise"}
    merge_json(folder / "summary.json", {"evaluation": {**elsewhere.evaluation, "ood": {"noise": {}, "gone": {}}}})
    with pytest.warns(UserWarning, match="gone, on which the run was evaluated before, is left out: unknown"):
        elsewhere = execute(RUN, folder, resume=True, samples=6)
    assert elsewhere.evaluation["ood"].keys() == {"noise"}
    elsewhere = execute(RUN, folder, resume=True, samples=5)
    after = times(folder)
    written = {path.name for path in before if after[path] != before[path]}
    assert {"summary.json", "predictions.npz"} <= written
    assert not [path for path in before if path.parts[0] in ("checkpoint", "history.jsonl") and path.name in written]
    assert elsewhere.history == first.history


def test_an_evaluation_with_another_seed_does_not_stand_for_its_own(tmp_path):
    first = execute(RUN, tmp_path / "run", **FAST)
    other = evaluate_run(tmp_path / "run", seed=9, **FAST)
    assert other.test != first.test
    assert execute(RUN, tmp_path / "run", resume=True, **FAST).test == first.test


def test_another_run_in_the_folder_is_refused(tmp_path):
    folder = tmp_path / "run"
    execute(RUN, folder, **FAST)
    before = times(folder)
    with pytest.raises(UsageError, match=r"lr is 0\.01 there, 0\.1 here; seed is 0 there, 7 here"):
        execute(changed(lr=0.1, seed=7), folder, resume=True, **FAST)
    with pytest.raises(UsageError, match="epochs is 2 there, 1 here"):
        execute(changed(epochs=1), folder, resume=True, **FAST)
    with pytest.raises(UsageError, match="not empty"):
        execute(RUN, folder, **FAST)
    with pytest.raises(UsageError, match="not both"):
        execute(RUN, folder, resume=True, overwrite=True, **FAST)
    assert times(folder) == before


def test_patterns_in_another_order_are_another_run(tmp_path):
    patterns = {"*.weight": 1.0, "1.*": 2.0}
    execute(changed(penalty="l2", penalty_factors=patterns), tmp_path / "run", **FAST)
    turned = dict(reversed(patterns.items()))
    with pytest.raises(UsageError, match="penalty_factors"):
        execute(changed(penalty="l2", penalty_factors=turned), tmp_path / "run", resume=True, **FAST)


def test_overwrite_begins_anew(tmp_path):
    execute(RUN, tmp_path / "run", **FAST)
    record = execute(changed(epochs=1, seed=3), tmp_path / "run", overwrite=True, **FAST)
    assert record.run.seed == 3
    assert len(record.history) == 1


def test_resume_begins_where_there_is_nothing_and_spares_what_is_no_run(tmp_path):
    assert execute(RUN, tmp_path / "new", resume=True, **FAST).finished
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    with pytest.raises(UsageError, match="not empty"):
        execute(RUN, tmp_path / "mine", resume=True, **FAST)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("stop", [None, 3])
def test_prolonging_rewrites_config_and_result(tmp_path, interrupt, monkeypatch, stop):
    folder = tmp_path / "run"
    if stop:
        interrupt(stop)
        with pytest.raises(RuntimeError):
            execute(RUN, folder, checkpoint_seconds=0, **FAST)
        monkeypatch.undo()
    else:
        first = execute(RUN, folder, **FAST)
        assert len(first.history) == 2
    longer = changed(epochs=4)
    with pytest.warns(ProlongedWarning, match="prolonged from 2 to 4 epochs"):
        record = execute(longer, folder, resume=True, **FAST)
    assert record.run == Run.read(folder / "config.toml") == longer
    assert record.summary["key"] == longer.key
    assert record.finished
    assert [epoch["epoch"] for epoch in record.history] == [1, 2, 3, 4]
    if not stop:
        assert record.history[:2] == first.history
        assert record.test != first.test
    assert execute(longer, folder, resume=True, **FAST) == record
    with pytest.raises(UsageError, match="epochs is 4 there, 2 here"):
        execute(RUN, folder, resume=True, **FAST)


def test_a_prolonged_run_that_was_interrupted_is_not_finished(tmp_path, interrupt, monkeypatch):
    folder = tmp_path / "run"
    execute(RUN, folder, **FAST)
    interrupt(6)
    with pytest.warns(ProlongedWarning), pytest.raises(RuntimeError):
        execute(changed(epochs=4), folder, resume=True, checkpoint_seconds=0, **FAST)
    monkeypatch.undo()
    assert not Record.read(folder).finished
    assert Record.read(folder).run.epochs == 4
    record = execute(changed(epochs=4), folder, resume=True, **FAST)
    assert record.finished
    assert len(record.history) == 4


def test_a_refused_prolonging_changes_nothing(tmp_path):
    folder = tmp_path / "run"
    run = changed(epochs=40, patience=1, lr=1.0)
    assert execute(run, folder, **FAST).summary["stopped"] != "epochs"
    before = times(folder)
    with pytest.raises(UsageError, match="more epochs do not change that"):
        execute(changed(epochs=50, patience=1, lr=1.0), folder, resume=True, **FAST)
    assert times(folder) == before


def test_a_damaged_summary_is_not_trained_over(tmp_path):
    execute(RUN, tmp_path / "run", **FAST)
    before = times(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text("{")
    with pytest.raises(CorruptFileError, match=r"summary\.json"):
        execute(RUN, tmp_path / "run", resume=True, **FAST)
    (tmp_path / "run" / "summary.json").unlink()
    assert execute(RUN, tmp_path / "run", resume=True, **FAST).finished
    after = times(tmp_path / "run")
    assert all(after[path] == before[path] for path in before if path.parts[0] == "checkpoint")


def test_a_run_that_somebody_holds_is_not_evaluated_into(tmp_path):
    """The other may be training, and write its own summary at its end."""
    execute(RUN, tmp_path / "run", **FAST)
    before = times(tmp_path / "run")
    with RunDirectory(tmp_path / "run", resume=True), pytest.raises(UsageError, match="in use by another process"):
        evaluate_run(tmp_path / "run", samples=3)
    assert times(tmp_path / "run") == before
    assert evaluate_run(tmp_path / "run", samples=3).evaluation["samples"] == 3
