"""UCI regression sets with their standard splits, from `$POSTERITY_DATA/uci`.

Each `.npz` there has x (n, d), y (n,) and train (splits, n), the rows each split trains on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from posterity.core.errors import CorruptFileError, FetchError, UsageError
from posterity.data.archives import read_npz
from posterity.data.dataset import Dataset
from posterity.data.entry import Entry
from posterity.data.sources import data_folder
from posterity.data.splits import Splits


@dataclass(frozen=True)
class UciSet:
    """A file, its SHA-256 over the bytes of x, y and train, and its sizes."""

    file: str
    sha256: str
    num_features: int
    num_train: int
    num_test: int
    num_splits: int = 20


SETS = {
    "uci-boston": UciSet(
        "bostonHousing.npz", "0d12c2a8eee8530eb1c24fbd7ba49ae744aad3bf0dde272f9eeedfda69aa2873", 13, 455, 51
    ),
    "uci-concrete": UciSet(
        "concrete.npz", "8fe59886e8bfeabe546ebb9be13a16d95a6b3c535a8f781fc28251b1e595175e", 8, 927, 103
    ),
    "uci-energy": UciSet("energy.npz", "cb5845b90fd980ed832b5d49b677e9f6c3ca3eb1dcb8e7e28d812c2442140149", 8, 691, 77),
    "uci-power": UciSet(
        "power-plant.npz", "d4cc25142b636252075056385c55c5b9fdff39a36016e5116f171dc2200f6e14", 4, 8611, 957
    ),
    "uci-protein": UciSet(
        "protein-tertiary-structure.npz",
        "bd0f448509f1f2c853c3f8cc54a91f14251306eb19c046e0dd4a52fbc97ebaa0",
        9,
        41157,
        4573,
        5,
    ),
    "uci-wine": UciSet(
        "wine-quality-red.npz",
        "39d7f544155b1e1b7d5a2a066d7352f7befbcd71649114a24e1228d1fb1a0ba6",
        11,
        1439,
        160,
    ),
}


def uci_file(name: str) -> Path | None:
    """Its file on this machine, if it is there."""
    root = data_folder()
    path = root / "uci" / SETS[name].file if root is not None else None
    return path if path is not None and path.is_file() else None


def find_uci(name: str) -> Path:
    """Its file on this machine; raises FetchError."""
    path = uci_file(name)
    if path is None:
        root = data_folder()
        where = f"{root / 'uci'} has no such file" if root is not None else "POSTERITY_DATA is not set"
        raise FetchError(
            f"'{name}' needs the file uci/{SETS[name].file}, but {where}; set POSTERITY_DATA to a folder that holds it."
        )
    return path


def uci(name: str, split: int = 0) -> Splits:
    """Standard split number `split` of the set `name`."""
    facts, path = SETS[name], find_uci(name)
    if not 0 <= split < facts.num_splits:
        raise UsageError(f"split {split} of '{name}' does not exist; it has 0..{facts.num_splits - 1}.")
    x, y, train = read_npz(path, ["x", "y", "train"]).values()
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in (x, y, train)))
    if digest.hexdigest() != facts.sha256:
        raise CorruptFileError(
            f"{path} has SHA-256 {digest.hexdigest()} over x, y and train, expected {facts.sha256}; "
            "results on other splits would not be comparable, get the original file."
        )
    # Measured to a few digits, which float32 holds.
    whole = Dataset.from_arrays(x, y, "regression", name=name).to(torch.float32)
    rows = torch.from_numpy(train[split])
    return Splits(whole.subset(rows), whole.subset(~rows))


def _entry(name: str, facts: UciSet) -> Entry:
    return Entry(
        task="regression",
        shape=(facts.num_features,),
        num_train=facts.num_train,
        num_test=facts.num_test,
        load=partial(uci, name),
        options=("split",),
        origin="local",
        available=lambda: uci_file(name) is not None,
        fetch=lambda progress: find_uci(name),
    )


DATASETS = {name: _entry(name, facts) for name, facts in SETS.items()}
