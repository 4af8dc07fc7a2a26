"""The cache of decoded data sets: one uncompressed `.npz` each, checked against sums in the code.

A file is written under another name and renamed when it is finished: neither an interrupted nor a
parallel fetch can leave a broken one.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError
from posterity.data.archives import read_npz

try:
    import fcntl
except ImportError:  # Windows: parallel fetches do the work twice, but the cache stays whole
    fcntl = None  # type: ignore[assignment]

Arrays = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Expected:
    """Shape and SHA-256 of an array of bytes."""

    shape: tuple[int, ...]
    sha256: str


def cache_folder() -> Path:
    """`$POSTERITY_CACHE`, or the user's cache."""
    return Path(os.environ.get("POSTERITY_CACHE") or Path.home() / ".cache" / "posterity")


def cache_file(name: str) -> Path:
    """Where the arrays of the data set `name` are, or will be."""
    return cache_folder() / f"{name}.npz"


def verify(arrays: Mapping[str, NDArray[np.uint8]], expected: Mapping[str, Expected]) -> None:
    """Each array has the shape and the sum that the code says."""
    for name, array in arrays.items():
        want = expected[name]
        if array.shape != want.shape or array.dtype != np.uint8:
            raise CorruptFileError(
                f"array {name} is {array.dtype} of shape {array.shape}, expected uint8 of shape {want.shape}"
            )
        found = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        if found != want.sha256:
            raise CorruptFileError(f"array {name} has SHA-256 {found}, expected {want.sha256}")


def read_cache(name: str, expected: Mapping[str, Expected], wanted: Iterable[str]) -> Arrays | None:
    """The `wanted` arrays, or None, with a warning if there is a file but a broken one."""
    path = cache_file(name)
    if not path.is_file():
        return None
    try:
        arrays = read_npz(path, wanted)
        verify(arrays, expected)
    except CorruptFileError as error:
        warnings.warn(f"the cached {path} is corrupt ({error}); fetching it again", UserWarning, stacklevel=2)
        return None
    return arrays


def write_cache(name: str, arrays: Mapping[str, Any]) -> None:
    """Put `arrays` in the cache, all or nothing; to be called under `cache_lock`."""
    path = cache_file(name)
    if fcntl is not None:  # under the lock nobody else is writing: these are of processes that were killed
        for leftover in path.parent.glob(f".{name}-*.tmp"):
            leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{name}-{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Only one process at a time fetches the data set `name`; others wait for it."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
