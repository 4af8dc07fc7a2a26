"""Sealed: one safetensors file of tensors with a description, its SHA-256 inside; nothing executable.

metadata    posterity: JSON of the format, its version and the description; sha256: of that text and all tensors
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from posterity.core.errors import CorruptFileError, UsageError
from posterity.storage.atomic import replace_file


@dataclass(frozen=True)
class Sealed:
    """A kind of file: the name of its format, its version, and `what` it holds, in words."""

    format: str
    version: int
    what: str

    def write(self, path: Path, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The whole file, atomically."""
        header = json.dumps({"format": self.format, "version": self.version, **description})
        own = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
        metadata = {"posterity": header, "sha256": _digest(header, own)}
        replace_file(path, lambda partial: save_file(own, partial, metadata=metadata))

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Description and tensors of a file that is whole and of this kind."""
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                header = json.loads(metadata["posterity"])
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            if metadata["sha256"] != _digest(metadata["posterity"], tensors):
                raise ValueError("its contents do not match their SHA-256")
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {path}") from error
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise CorruptFileError(f"{path} is not {self.what}: {error}") from error
        if header.get("format") != self.format or header.get("version") != self.version:
            found = f"{header.get('format')} {header.get('version')}"
            raise CorruptFileError(f"{path} has format {found}; this program reads {self.format} {self.version}")
        return header, tensors


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all that is stored: safetensors itself does not notice altered values."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
