from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from posterity.core.errors import CorruptFileError
from posterity.data import cifar
from posterity.data.cache import Expected

RNG = np.random.default_rng(0)


def images(count):
    return RNG.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def records(labels, pixels):
    return np.concatenate([labels, pixels.reshape(len(pixels), -1)], axis=1).astype(np.uint8)


def write_tar(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"some-folder/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def cifar10():
    """Labels (6, 2) and images (6, 2, ...) of five small training batches and a test batch."""
    return RNG.integers(0, 10, (6, 2)), [images(2) for _ in range(6)]


def names(suffix):
    return [*(f"data_batch_{number}{suffix}" for number in range(1, 6)), f"test_batch{suffix}"]


def check(decoded, labels, pixels):
    assert np.array_equal(decoded["train"][:, 0], labels[:5].ravel())
    assert np.array_equal(decoded["train"][:, 1:].reshape(-1, 3, 32, 32), np.concatenate(pixels[:5]))
    assert np.array_equal(decoded["test"], records(labels[5][:, None], pixels[5]))


def test_cifar10_as_png(tmp_path, cifar10):
    labels, pixels = cifar10
    for name, part in zip(names(".png"), pixels, strict=True):
        Image.fromarray(part.transpose(0, 2, 3, 1).reshape(2, 1024, 3)).save(tmp_path / name)
    (tmp_path / "train_lables.json").write_text(json.dumps(labels[:5].ravel().tolist()))
    (tmp_path / "test_lables.json").write_text(json.dumps(labels[5].tolist()))
    check(cifar.decode_cifar10(tmp_path), labels, pixels)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_as_binary(tmp_path, cifar10, packed):
    labels, pixels = cifar10
    files = {
        name: records(label[:, None], part).tobytes()
        for name, label, part in zip(names(".bin"), labels, pixels, strict=True)
    }
    if packed:
        write_tar(tmp_path / "cifar-10-binary.tar.gz", files)
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    check(cifar.decode_cifar10(tmp_path), labels, pixels)


def test_a_png_of_another_size_is_refused(tmp_path):
    Image.fromarray(np.zeros((3, 10, 3), np.uint8)).save(tmp_path / "x.png")
    with pytest.raises(CorruptFileError, match=r"shape \(3, 10, 3\), expected uint8 \(2, 1024, 3\)"):
        cifar.read_png_records(tmp_path / "x.png", np.zeros(2, np.uint8))


@pytest.fixture
def cifar100(tmp_path):
    """A folder with a small archive of the real format, and the records in it."""
    train = records(np.array([[1, 99], [2, 0], [19, 50]]), images(3))
    test = records(np.array([[0, 7]]), images(1))
    write_tar(tmp_path / "cifar-100-binary.tar.gz", {"train.bin": train.tobytes(), "test.bin": test.tobytes()})
    return tmp_path, train, test


def test_cifar100_from_its_archive(cifar100):
    folder, train, test = cifar100
    decoded = cifar.decode_cifar100(folder)
    assert np.array_equal(decoded["train"], train)
    assert np.array_equal(decoded["test"], test)


def test_cifar100_uses_the_fine_label(cifar100, monkeypatch, tmp_path):
    folder, train, test = cifar100
    sums = {
        name: Expected(array.shape, hashlib.sha256(array.tobytes()).hexdigest())
        for name, array in (("train", train), ("test", test))
    }
    small = replace(cifar.CIFAR100, arrays=sums, local=(), system=(str(folder),))
    monkeypatch.setenv("POSTERITY_CACHE", str(tmp_path / "cache"))
    data = cifar.colour_images(small, 100, "train")
    assert data.y.tolist() == [99, 0, 50]
    assert (data.num_classes, data.input_shape) == (100, (3, 32, 32))
    assert np.array_equal(data.x.numpy(), train[:, 2:].reshape(3, 3, 32, 32))


def test_broken_archives_are_refused(cifar100):
    folder, train, _ = cifar100
    write_tar(folder / "cifar-100-binary.tar.gz", {"train.bin": train.tobytes()})
    with pytest.raises(CorruptFileError, match=r"lacks test\.bin"):
        cifar.decode_cifar100(folder)
    write_tar(folder / "cifar-100-binary.tar.gz", {"train.bin": train.tobytes(), "test.bin": train.tobytes()[:-1]})
    with pytest.raises(CorruptFileError, match=r"test\.bin has 9221 bytes, not a multiple of the 3074"):
        cifar.decode_cifar100(folder)
