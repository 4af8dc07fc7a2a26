"""Files are whole or not there."""

import os

import pytest

from posterity.core.errors import CorruptFileError
from posterity.storage import merge_json, read_json, replace_file, write_text
from posterity.storage.atomic import flush, sha256


def test_a_file_appears_at_once_with_its_suffix(tmp_path):
    path = tmp_path / "figure.png"
    seen = []

    def write(partial):
        seen.append((partial.suffix, partial.parent, path.exists()))
        partial.write_text("new")

    replace_file(path, write)
    assert seen == [(".png", tmp_path, False)]
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["figure.png"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")

    def fail(partial):
        partial.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["summary.json"]


def test_text_is_replaced_whole(tmp_path):
    for text in ("a longer text, ü", "short"):
        write_text(tmp_path / "file", text)
        assert (tmp_path / "file").read_text(encoding="utf-8") == text


def test_json_is_merged_by_name(tmp_path):
    path = tmp_path / "summary.json"
    assert read_json(path) == {}
    merge_json(path, {"a": 1, "b": {"c": 2}})
    merge_json(path, {"b": {"d": 3}})
    assert read_json(path) == {"a": 1, "b": {"d": 3}}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff"])
def test_what_is_no_json_object_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"summary\.json is not JSON"):
        merge_json(path, {"a": 1})
    assert path.read_bytes() == content


def test_flush_reaches_the_disk_for_files_and_folders(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    (tmp_path / "file").write_text("")
    flush(tmp_path / "file")
    flush(tmp_path)
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
