"""Files that are whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posterity.core.errors import CorruptFileError


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path` (with its suffix), and put that in its place."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """`text` as the file's whole content."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one if there is no file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__} instead of an object")
    except (OSError, ValueError) as error:
        raise CorruptFileError(f"{path} is not JSON ({error}); remove it and try again") from error
    return found


def merge_json(path: Path, values: Mapping[str, Any]) -> None:
    """Add `values` to the object in a JSON file, or replace those of the same name."""
    write_text(path, json.dumps({**read_json(path), **values}, indent=1) + "\n")


def flush(path: Path) -> None:
    """Force a file or a directory to the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # Windows has no handles of directories, and needs none
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """The file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
