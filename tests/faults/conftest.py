"""A place for runs that are killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def memory():
    """A folder in memory if there is one: who is killed loses what it had not written, not what it had not flushed."""
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 2**26
    with tempfile.TemporaryDirectory(dir=shared if usable else None) as folder:
        yield Path(folder)
