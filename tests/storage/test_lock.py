"""A lock is held by one at a time, and by nobody once its file is another; without fcntl there is one, too."""

import os
import subprocess
import sys

import pytest

from posterity.storage.lock import FileLock


@pytest.fixture
def lock(tmp_path):
    made = FileLock(tmp_path / ".lock")
    made.take()
    made.sign()
    yield made
    made.release()


def test_one_at_a_time(lock):
    assert lock.held
    assert lock.path.read_text() == str(os.getpid())
    other = FileLock(lock.path)
    with pytest.raises(BlockingIOError, match=str(os.getpid())):
        other.take()
    assert not other.held
    lock.release()
    assert not lock.held
    other.take()
    assert other.held
    other.release()


def test_who_came_too_late_has_not_emptied_it(lock):
    with pytest.raises(BlockingIOError):
        FileLock(lock.path).take()
    assert lock.path.read_text() == str(os.getpid())
    assert lock.held


@pytest.mark.parametrize("what", ["removed", "made anew", "locked anew", "a folder"])
def test_it_is_lost_with_its_file(lock, what):
    lock.path.unlink()
    if what == "made anew":
        lock.path.write_text("")
    elif what == "a folder":
        lock.path.mkdir()
    elif what == "locked anew":
        other = FileLock(lock.path)
        other.take()
        assert other.held
        other.release()
    assert not lock.held


def test_it_survives_that_its_directory_is_moved_and_put_back(lock, tmp_path):
    elsewhere = tmp_path.with_name(tmp_path.name + "-moved")
    tmp_path.rename(elsewhere)
    assert not lock.held
    elsewhere.rename(tmp_path)
    assert lock.held


def test_a_lock_that_nobody_signed_has_an_unknown_owner(tmp_path):
    first = FileLock(tmp_path / ".lock")
    first.take()
    with pytest.raises(BlockingIOError, match="unknown"):
        FileLock(first.path).take()
    first.release()


ON_WINDOWS = """
import fcntl, os, subprocess, sys, types
import torch  # what it imports is its own affair

calls, real = [], fcntl
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK = 2

def locking(handle, mode, count):  # raises OSError where another holds the bytes, as Windows' own
    calls.append((os.lseek(handle, 0, os.SEEK_CUR), mode, count))
    real.flock(handle, real.LOCK_EX | real.LOCK_NB)

msvcrt.locking = locking
sys.modules["msvcrt"], sys.modules["fcntl"] = msvcrt, None

import posterity
from posterity.storage import RunDirectory
from posterity.core.errors import UsageError

with RunDirectory(sys.argv[1]) as directory:
    directory.confirm()
    assert (directory.path / ".lock").read_text() == str(os.getpid())
    try:
        with RunDirectory(sys.argv[1]):
            raise AssertionError("two at a time")
    except UsageError as error:
        assert f"in use by another process (id {os.getpid()})" in str(error), error
with RunDirectory(sys.argv[1]):
    pass
assert calls == [(2**30, 2, 1)] * 3, calls  # behind the text, which stays readable
print("fine")
"""


def test_posterity_is_imported_and_locks_without_fcntl(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS, tmp_path / "run"], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork")  # of libraries with threads that other tests have imported
def test_a_forked_process_does_not_keep_it(lock):
    """As a loader's worker, which lives on while the run ends."""
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(wait, 1)
        os._exit(0)
    try:
        lock.release()
        other = FileLock(lock.path)
        other.take()
        other.release()
    finally:
        os.write(go, b".")
        os.waitpid(child, 0)
        os.close(wait)
        os.close(go)
