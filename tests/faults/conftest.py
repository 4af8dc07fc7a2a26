"""A place for runs that are killed, and a PostgreSQL server for sweeps."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory():
    """A folder in memory if there is one: who is killed loses what it had not written, not what it had not flushed."""
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 2**26
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)


def _binaries() -> Path | None:
    """Where PostgreSQL's programs are; Debian has them beside the path."""
    places = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server of our own, on a socket in a folder of its own."""
    place = _binaries()
    if place is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    as_user: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if os.getuid() == 0:  # as which the server refuses to run
            if shutil.which("setpriv") is None:
                pytest.skip("PostgreSQL does not run as root, and there is no setpriv to become another")
            nobody = pwd.getpwnam("nobody")
            as_user = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        data = f"{folder}/data"

        def run(program: str, *arguments: str) -> None:
            command = [*as_user, str(place / program), "-D", data, *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120, cwd=folder)

        run("initdb", "--username=posterity", "--auth=trust", "--no-sync")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-F -c listen_addresses='' -k {folder}", "start")
        try:
            yield f"postgresql://posterity@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
