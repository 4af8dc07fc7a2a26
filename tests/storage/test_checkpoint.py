"""Checkpoints: whatever is done to the files, a whole earlier one is used, or nothing and an error."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import posterity as pt
from posterity.core.errors import CorruptFileError, PosterityError
from posterity.storage import Checkpoints, CheckpointWarning
from posterity.storage import checkpoint as checkpoint_module


def state(step):
    return {"step": step, "w": torch.arange(50.0) + step, "list": [1, None, (2.5, "a")], "map": {1: True, "1": {}}}


@pytest.fixture
def two(tmp_path):
    """Checkpoints of steps 1 and 2."""
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    for step in (1, 2):
        checkpoints.write(step, state(step))
    return checkpoints


def test_round_trip_and_only_the_last_two(tmp_path, same):
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    assert checkpoints.read_latest() is None
    for step in (0, 5, 9, 100, 101):
        checkpoints.write(step, state(step))
        assert same(checkpoints.read_latest(), state(step))
    assert checkpoints.names() == ["step-00000100", "step-00000101"]
    checkpoints.write(101, state(101), final=True)
    assert checkpoints.names() == ["step-00000101", "step-00000101-final"]
    checkpoints.write(10**8 + 1, state(10**8 + 1))  # nine digits come after eight
    assert same(checkpoints.read_latest(), state(10**8 + 1))
    assert sorted(p.name for p in checkpoints.folder.iterdir()) == checkpoints.names()


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "longer", "a folder"])
def test_damaged_newest_falls_back(two, same, file, damage):
    path = two.folder / "step-00000002" / file
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "missing":
        new = {"truncated": content[: len(content) // 2], "empty": b"", "longer": content + b"0"}[damage]
        path.write_bytes(new)
    with pytest.warns(CheckpointWarning, match=r"step-00000002 is damaged.*falling back"):
        assert same(two.read_latest(), state(1))


def test_every_flipped_bit_of_the_manifest_is_noticed(two):
    path = two.folder / "step-00000002" / "manifest.json"
    content = path.read_bytes()
    for position in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(CorruptFileError):
                two.read("step-00000002")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_of_the_state_is_noticed(two, share, bit):
    path = two.folder / "step-00000002" / "state.safetensors"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[int(share * len(content))] ^= 1 << bit
    path.write_bytes(flipped)
    try:
        with pytest.raises(CorruptFileError, match="step-00000002"):
            two.read("step-00000002")
    finally:
        path.write_bytes(content)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_any_cut_is_noticed(two, share):
    path = two.folder / "step-00000002" / "state.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    try:
        with pytest.raises(CorruptFileError, match="bytes instead of"):
            two.read("step-00000002")
    finally:
        path.write_bytes(content)


def rewrite_manifest(folder, **changes):
    """With a valid size and SHA-256, so that only `changes` are wrong."""
    path = folder / "manifest.json"
    state_file = folder / "state.safetensors"
    manifest = json.loads(path.read_text())
    manifest |= {"size": state_file.stat().st_size, "sha256": checkpoint_module.sha256(state_file), **changes}
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "changes", [{"version": checkpoint_module.VERSION + 1}, {"version": None}, {"format": "other"}, {"step": 7}]
)
def test_another_version_format_or_step_is_refused(two, same, changes):
    rewrite_manifest(two.folder / "step-00000002", **changes)
    with pytest.warns(CheckpointWarning):
        assert same(two.read_latest(), state(1))


def test_a_manifest_that_is_no_object(two, same):
    (two.folder / "step-00000002" / "manifest.json").write_text("[1]")
    with pytest.warns(CheckpointWarning):
        assert same(two.read_latest(), state(1))


class Trap:
    sprung = False

    def __reduce__(self):
        return (_spring, ())


def _spring():
    Trap.sprung = True


def test_a_pickle_is_never_loaded(two, same):
    file = two.folder / "step-00000002" / "state.safetensors"
    for content in (pickle.dumps(Trap()), pickle.dumps({"state": Trap()})):
        file.write_bytes(content)
        rewrite_manifest(file.parent)  # even if the manifest vouches for it
        with pytest.warns(CheckpointWarning):
            assert same(two.read_latest(), state(1))
    torch.save({"step": 2, "state": Trap()}, file)
    rewrite_manifest(file.parent)
    with pytest.warns(CheckpointWarning):
        assert same(two.read_latest(), state(1))
    assert not Trap.sprung


def test_both_damaged_is_an_error_that_names_both(two):
    for name in two.names():
        (two.folder / name / "state.safetensors").write_bytes(b"")
    with (
        pytest.warns(CheckpointWarning, match="step-00000002"),
        pytest.raises(CorruptFileError, match=r"00000002.*00000001"),
    ):
        two.read_latest()


def test_leftovers_are_harmless(two, same):
    (two.folder / "unfinished").mkdir()
    (two.folder / "unfinished" / "state.safetensors").write_bytes(b"half")
    (two.folder / "step-abc").mkdir()
    (two.folder / "note.txt").write_text("mine")
    assert same(two.read_latest(), state(2))
    two.write(3, state(3))
    assert same(two.read_latest(), state(3))
    assert not (two.folder / "unfinished").exists()
    assert (two.folder / "note.txt").read_text() == "mine"


def test_a_damaged_later_one_does_not_push_out_good_ones(two, same):
    """Resumed from step 1 because step 2 is damaged; new ones must count as the newest."""
    (two.folder / "step-00000002" / "manifest.json").write_bytes(b"")
    (two.folder / "step-00000002").rename(two.folder / "step-00000009")
    for step in (3, 4):
        two.write(step, state(step))
        assert same(two.read_latest(), state(step))  # without a warning
    assert two.names() == ["step-00000003", "step-00000004"]


@pytest.mark.parametrize("part", ["save_file", "sha256", "flush"])
def test_a_failure_while_writing_leaves_the_earlier_ones(two, same, monkeypatch, part):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module, part, fail)
    with pytest.raises(PosterityError, match=r"step 3 could not.*No space left.*step-00000002.*--resume"):
        two.write(3, state(3))
    monkeypatch.undo()
    assert same(two.read_latest(), state(2))
    assert two.names() == ["step-00000001", "step-00000002"]
    assert not (two.folder / "unfinished").exists()


def test_a_run_goes_on_from_the_earlier_checkpoint(make_net, small, tmp_path, checkpoint_bytes, records):
    settings = {"epochs": 3, "batch_size": 20, "checkpoint_seconds": 0}
    pt.fit(make_net(), small, out=tmp_path / "whole", **settings)
    pt.fit(make_net(), small, out=tmp_path / "run", **settings)
    newest = Checkpoints(tmp_path / "run" / "checkpoint").names()[-1]
    (tmp_path / "run" / "checkpoint" / newest / "state.safetensors").write_bytes(b"broken")
    with pytest.warns(CheckpointWarning):
        pt.fit(make_net(), small, out=tmp_path / "run", resume=True, **settings)
    assert checkpoint_bytes(tmp_path / "run") == checkpoint_bytes(tmp_path / "whole")
    assert records(tmp_path / "run" / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


@pytest.mark.filterwarnings("default::posterity.storage.CheckpointWarning")
def test_the_command_line_with_damaged_checkpoints(train, cli, tmp_path):
    assert train("run", "--checkpoint-seconds", 0).code == 0
    first, second = sorted((tmp_path / "run" / "checkpoint").iterdir())
    (second / "state.safetensors").write_bytes(b"broken")
    done = cli("evaluate", "run", "--samples", 2, "--json")
    assert done.code == 0
    assert done.json["samples"] == 2
    assert "warning: checkpoint" in done.err
    assert "not finished" in done.err
    (first / "manifest.json").unlink()
    for command in (("evaluate", "run"), ("train", "--out", "run", "--resume")):
        done = cli(*command)
        assert done.code == 4
        assert done.out == ""
        assert "error: no checkpoint can be read" in done.err
        assert done.err.count("\n") == 2  # a warning, an error


@pytest.mark.filterwarnings("default::posterity.storage.CheckpointWarning")
def test_a_run_whose_end_is_damaged_is_trained_to_its_end_again(train, cli, tmp_path, checkpoint_bytes):
    """Also if somebody has evaluated it meanwhile: the weights of an earlier step are not taken for the last."""
    assert train("run", "--checkpoint-seconds", 0).code == 0
    whole = checkpoint_bytes(tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    last = sorted((tmp_path / "run" / "checkpoint").iterdir())[-1]
    (last / "state.safetensors").write_bytes(b"broken")
    assert cli("evaluate", "run").code == 0
    assert cli("train", "--out", "run", "--resume", "--quiet").code == 0
    assert checkpoint_bytes(tmp_path / "run") == whole
    again = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert again["evaluation"] == summary["evaluation"]
