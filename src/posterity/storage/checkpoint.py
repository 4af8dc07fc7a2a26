"""Checkpoints: safetensors plus a manifest with its SHA-256, written atomically, the last two kept.

    checkpoint/step-00000937/state.safetensors      tensors, and the rest of the state as JSON metadata
    checkpoint/step-00000937/manifest.json          format, version, step, size and SHA-256 of the above

A checkpoint is written beside its place, flushed to disk and renamed into it: at any moment there are whole
checkpoints or none. What was cut off, altered or written by another version is recognised on reading.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save_file

from posterity.core.errors import CorruptFileError, PosterityError
from posterity.storage.atomic import flush, sha256
from posterity.storage.tree import pack, unpack

FORMAT, VERSION = "posterity-checkpoint", 3
KEPT = 2
NAME = re.compile(r"step-(\d{8,})(-final)?")


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over."""


class Checkpoints:
    """The checkpoints of one run; `confirm` is called before each write, and raises if they are another's by now."""

    def __init__(self, folder: Path, confirm: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self._confirm = confirm

    def names(self) -> list[str]:
        """Names of the checkpoints, oldest first."""
        found = [p.name for p in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(filter(NAME.fullmatch, found), key=lambda name: (len(name.split("-")[1]), name))

    def write(self, step: int, state: Mapping[str, Any], *, final: bool = False) -> Path:
        """Store `state`; on failure (a full disk) the checkpoints that exist stay as they are."""
        self._confirm()
        place = self.folder / (f"step-{step:08d}" + ("-final" if final else ""))
        unfinished = self.folder / "unfinished"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            tensors, skeleton = pack(state)
            file = unfinished / "state.safetensors"
            save_file(tensors, file, metadata={"state": skeleton})
            manifest = {
                "format": FORMAT,
                "version": VERSION,
                "step": step,
                "size": file.stat().st_size,
                "sha256": sha256(file),
            }
            (unfinished / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
            for path in (file, unfinished / "manifest.json", unfinished):
                flush(path)
            shutil.rmtree(place, ignore_errors=True)  # a damaged one that a resumed run has passed over
            unfinished.rename(place)
            flush(self.folder)
        except (OSError, safetensors.SafetensorError) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            kept = self.names()
            rest = f"the last good checkpoint is {kept[-1]}" if kept else "there is no earlier checkpoint"
            raise PosterityError(
                f"the checkpoint of step {step} could not be written ({error}); {rest}. "
                "Free some space, then continue with --resume."
            ) from error
        # Older ones, and damaged ones of later steps that a resumed run has passed over.
        here = self.names().index(place.name)
        for name in [*self.names()[: max(0, here + 1 - KEPT)], *self.names()[here + 1 :]]:
            shutil.rmtree(self.folder / name)
        return place

    def read_latest(self) -> dict[str, Any] | None:
        """The newest whole checkpoint's state; None if there is none at all."""
        names = self.names()
        problems = []
        for name in reversed(names):
            try:
                return self.read(name)
            except CorruptFileError as error:
                problems.append(str(error))
                if name != names[0]:
                    warnings.warn(f"{error}; falling back to the previous one", CheckpointWarning, stacklevel=2)
        if problems:
            raise CorruptFileError("no checkpoint can be read: " + "; ".join(problems))
        return None

    def read(self, name: str) -> dict[str, Any]:
        """The state of checkpoint `name`, verified."""
        folder = self.folder / name
        try:
            manifest = json.loads((folder / "manifest.json").read_text())
            if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
                raise ValueError("not a manifest of this format")
            if manifest["version"] != VERSION:
                raise ValueError(f"written in version {manifest['version']}, this program reads {VERSION}")
            file = folder / "state.safetensors"
            if file.stat().st_size != manifest["size"]:
                raise ValueError(f"{file.stat().st_size} bytes instead of {manifest['size']}")
            if sha256(file) != manifest["sha256"]:
                raise ValueError("its SHA-256 differs from the manifest's")
            with safetensors.safe_open(file, framework="pt") as opened:
                tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
                state: dict[str, Any] = unpack(tensors, opened.metadata()["state"])
            if state["step"] != manifest["step"]:
                raise ValueError("its step differs from the manifest's")
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise CorruptFileError(f"checkpoint {name} is damaged: {error}") from error
        return state
