"""Reading `.npz` files: arrays only, never pickles, and one error for whatever is wrong with a file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError

# The last three: an unknown compression, an encrypted member, a header of another world.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
)


def read_npz(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays `names`, or all, of a `.npz` file."""
    try:
        # Opened here because np.load leaves a file open that turns out not to be an archive.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, NpzFile):
                raise CorruptFileError(f"{path} is not a .npz archive but a single array; use np.savez.")
            missing = sorted(set(names or ()) - set(archive.files))
            if missing:
                raise CorruptFileError(f"{path} lacks {', '.join(missing)}; it has {', '.join(archive.files)}.")
            return {name: archive[name] for name in names or archive.files}
    except _UNREADABLE as error:
        raise CorruptFileError(
            f"cannot read {path}: {error}. It should be written by np.savez and hold numbers only."
        ) from error
