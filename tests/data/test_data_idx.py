from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from posterity.core.errors import CorruptFileError
from posterity.data import idx
from posterity.data.idx import read_idx

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def encode(array):
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def test_plain_and_gzipped_files(tmp_path):
    (tmp_path / "plain").write_bytes(encode(IMAGES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(encode(IMAGES)))
    assert np.array_equal(read_idx(tmp_path / "plain"), IMAGES)
    assert np.array_equal(read_idx(tmp_path / "packed.gz"), IMAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file of bytes"),
        (b"\0\0\x0d\x01" + bytes(8), "not an IDX file of bytes"),
        (encode(IMAGES)[:10], "ends within its header, after 10 bytes"),
        (encode(IMAGES)[:-1], r"holds 23 values, but its header says \(2, 3, 4\), 24"),
        (encode(IMAGES) + b"x", "holds 25 values"),
    ],
)
def test_broken_files_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message):
        read_idx(tmp_path / "file")


def test_the_four_files_of_a_set_are_told_apart(tmp_path):
    parts = {
        "train-images-idx3-ubyte": np.full((3, 28, 28), 1, np.uint8),
        "train-labels-idx1-ubyte": np.full(3, 2, np.uint8),
        "t10k-images-idx3-ubyte": np.full((2, 28, 28), 3, np.uint8),
        "t10k-labels-idx1-ubyte": np.full(2, 4, np.uint8),
    }
    for name, array in parts.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(encode(array)))
    decoded = idx.MNIST.decode(tmp_path)
    assert {name: int(array.flat[0]) for name, array in decoded.items()} == {
        "train_x": 1,
        "train_y": 2,
        "test_x": 3,
        "test_y": 4,
    }
    assert list(idx.NOTMNIST.decode(tmp_path)) == ["test_x", "test_y"]


def test_kmnist_comes_as_npz(tmp_path):
    np.savez(tmp_path / "kmnist-test-imgs.npz", IMAGES)
    np.savez(tmp_path / "kmnist-test-labels.npz", np.arange(2, dtype=np.uint8))
    decoded = idx.KMNIST.decode(tmp_path)
    assert np.array_equal(decoded["test_x"], IMAGES)
    assert decoded["test_y"].tolist() == [0, 1]
