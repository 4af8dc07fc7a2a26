"""Downloads that go on where they broke off.

Bytes go to `<file>.part`, which is renamed when it is complete: a file of the final name is whole.
"""

from __future__ import annotations

import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from posterity.core.errors import FetchError
from posterity.data.progress import Reporter

_TIMEOUT = 15.0  # seconds without an answer: a closed network has to fail quickly
_ATTEMPTS = 4  # of which each goes on where the one before broke off
_BLOCK = 1 << 18


def download(url: str, target: Path, reporter: Reporter) -> Path:
    """`url` as the file `target`, resuming an earlier `.part`; raises FetchError."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for _ in range(_ATTEMPTS):
        if _attempt(url, part, reporter):
            os.replace(part, target)
            return target
    raise FetchError(f"{url} broke off {_ATTEMPTS} times; the next fetch goes on at {_size(part)} bytes")


def _attempt(url: str, part: Path, reporter: Reporter) -> bool:
    """Whether `part` is now complete; raises FetchError where another attempt would be of no use."""
    try:
        return _receive(url, part, reporter)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise FetchError(f"{url} answered {error.code} {error.reason}") from error
        part.unlink(missing_ok=True)  # not shorter than the file is now: not a beginning of it
    except urllib.error.URLError as error:
        raise FetchError(f"{url}: {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reporter.say(f"{part.stem}: broken off ({error or type(error).__name__})")
    return False


def _receive(url: str, part: Path, reporter: Reporter) -> bool:
    """Append to `part` what is missing of `url`; false if the server stopped short of the end."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "posterity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        start, total = _extent(response, part)
        with part.open("r+b" if start else "wb") as file, reporter.transfer(part.stem, total) as update:
            file.seek(start)
            while block := response.read(_BLOCK):
                file.write(block)
                update(file.tell())
            file.truncate()
            return total is None or file.tell() == total


def _extent(response: http.client.HTTPResponse, part: Path) -> tuple[int, int | None]:
    """Where the answer's first byte belongs, and the size of the whole file if it is told."""
    length = response.headers.get("Content-Length")
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:  # a server without ranges sends all of it
        return 0, int(length) if length else None
    have, answer = _size(part), response.headers.get("Content-Range", "")
    given = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer)
    if given is None or int(given[1]) != have:
        part.unlink()  # or every later fetch would ask for the same and fail the same
        raise FetchError(f"{response.url}: asked for bytes from {have}, got '{answer}'")
    return have, None if given[2] == "*" else int(given[2])


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
