"""A run's directory: what is refused, what is deleted, who holds the lock."""

from __future__ import annotations

import os

import pytest

from posterity.core.errors import UsageError
from posterity.storage import RunDirectory


def listing(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_used_directory_is_refused_and_left_as_it_is(train, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    done = train("mine")
    assert done.code == 2
    assert "not empty" in done.err
    assert "--resume" in done.err
    assert "--overwrite" in done.err
    assert done.err.count("\n") == 1
    assert listing(tmp_path / "mine") == ["thesis.txt"]  # not even a lock is left behind


def test_a_foreign_lock_file_is_not_emptied(tmp_path):
    (tmp_path / ".lock").write_text("of another program")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="not empty"), RunDirectory(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "of another program"


def test_an_empty_directory_is_fine(tmp_path):
    with RunDirectory(tmp_path) as directory:
        assert (directory.path / ".lock").read_text() == str(os.getpid())
    with RunDirectory(tmp_path):  # a lock alone does not make it used
        pass


def test_overwrite_deletes_what_is_the_runs_and_nothing_else(train, tmp_path, checkpoint_bytes):
    assert train("run").code == 0
    first = checkpoint_bytes(tmp_path / "run")
    own = listing(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "more").mkdir()
    (tmp_path / "run" / "more" / "config.toml").write_text("mine, too")
    assert train("run").code == 2
    assert train("run", "--overwrite", "--seed", 3).code == 0
    assert listing(tmp_path / "run") == sorted([*own, "notes.txt", "more"])
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "run" / "more" / "config.toml").read_text() == "mine, too"
    assert checkpoint_bytes(tmp_path / "run") != first
    assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == 1
    assert "seed = 3" in (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize(
    "mistake",
    [
        ("--optimizer", "adm"), ("--schedule", "cosin"), ("--model", "mpl"), ("--dataset", "digit"), ("--lr", "-1"),
        ("--prior-scale", "kaimin"), ("--posterior", "points"), ("--kl-decay", "inf"), ("--temperature", "inf"),
        ("--patience", "2", "--val-fraction", "0"), ("--deterministic", "nosuch.*"), ("--seed", "-1"),
    ],
)  # fmt: skip
def test_a_mistake_neither_deletes_a_run_nor_occupies_a_directory(train, tmp_path, mistake):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text("precious")
    assert train("run", "--overwrite", *mistake).code == 2
    assert (tmp_path / "run" / "config.toml").read_text() == "precious"
    assert train("new", *mistake).code == 2
    assert not (tmp_path / "new").exists()


def test_overwrite_that_cannot_clear_says_so(train, tmp_path):
    """A symbolic link to a folder elsewhere is not followed, and old checkpoints are not silently kept."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("keep")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(tmp_path / "elsewhere")
    done = train("run", "--overwrite")
    assert done.code == 2
    assert "symbolic link" in done.err
    assert (tmp_path / "elsewhere" / "file").read_text() == "keep"


def test_in_use(tmp_path):
    with RunDirectory(tmp_path / "run"):
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(UsageError, match=f"in use.*{os.getpid()}"), RunDirectory(tmp_path / "run", **options):
                pass
    with RunDirectory(tmp_path / "run", resume=True):
        pass


def test_the_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), RunDirectory(tmp_path / "run"):
        raise ZeroDivisionError
    with RunDirectory(tmp_path / "run"):
        pass


def test_a_file_in_its_place(train, cli, tmp_path):
    (tmp_path / "run").write_text("a file")
    for option in ((), ("--overwrite",)):
        done = train("run", *option)
        assert done.code == 2
        assert "is a file" in done.err
    assert cli("train", "--out", "run", "--resume").code in (2, 4)
    assert train("run/below").code == 2
    assert (tmp_path / "run").read_text() == "a file"


def test_nothing_to_resume(cli, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in ("nosuch", "empty"):
        done = cli("train", "--out", place, "--resume")
        assert done.code == 2
        assert "there is no run" in done.err
    assert listing(tmp_path) == ["empty"]
    assert listing(tmp_path / "empty") == []


def test_resume_and_overwrite_together(train, tmp_path):
    assert train("run").code == 0
    done = train("run", "--resume", "--overwrite")
    assert done.code == 2
    assert "not both" in done.err


def test_a_run_without_checkpoints_is_explained(train, cli, tmp_path):
    assert train("run").code == 0
    for checkpoint in (tmp_path / "run" / "checkpoint").iterdir():
        checkpoint.rename(tmp_path / checkpoint.name)
    done = cli("evaluate", "run")
    assert done.code == 2
    assert "no checkpoint" in done.err


@pytest.mark.parametrize("content", ["", "epochs = ", "nosuch = 1\n", "epochs = -3\n", "\udcff"])
def test_a_damaged_configuration(train, cli, tmp_path, content):
    assert train("run").code == 0
    (tmp_path / "run" / "config.toml").write_bytes(content.encode(errors="surrogateescape"))
    done = cli("train", "--out", "run", "--resume")
    if content == "":  # valid, but it is another run
        assert done.code == 2
    else:
        assert done.code == 4
        assert "config.toml" in done.err
    assert "Traceback" not in done.err


def test_a_damaged_summary(train, cli, tmp_path):
    assert train("run").code == 0
    (tmp_path / "run" / "summary.json").write_text("{")
    done = cli("evaluate", "run", "--samples", 1)
    assert done.code == 4
    assert "summary.json" in done.err
