from __future__ import annotations

import pytest
import torch

from posterity.core.errors import UnknownNameError, UsageError
from posterity.data import AUGMENTATIONS, check_augmentation
from posterity.data.augmentation import crop, crop_flip, flip


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pixels(count, height=8, width=8, channels=2):
    """Images whose pixels are all different, and none 0."""
    return torch.arange(1.0, count * channels * height * width + 1).reshape(count, channels, height, width)


def moved(image, down, right):
    """By loops: out[i, j] = image[i + down, j + right], zero outside."""
    _, height, width = image.shape
    out = torch.zeros_like(image)
    for i in range(height):
        for j in range(width):
            if 0 <= i + down < height and 0 <= j + right < width:
                out[:, i, j] = image[:, i + down, j + right]
    return out


def moves(image, pad_down=1, pad_right=1):
    """Every crop of an image, by its shift."""
    shifts = [(down, right) for down in range(-pad_down, pad_down + 1) for right in range(-pad_right, pad_right + 1)]
    return {shift: moved(image, *shift) for shift in shifts}


def shift_of(out, candidates):
    found = [shift for shift, candidate in candidates.items() if torch.equal(out, candidate)]
    assert len(found) == 1
    return found[0]


def test_a_crop_by_hand():
    x = pixels(3)
    draws = seeded(5)
    down, right = torch.randint(3, (3,), generator=draws) - 1, torch.randint(3, (3,), generator=draws) - 1
    expected = [moved(image, int(d), int(r)) for image, d, r in zip(x, down, right, strict=True)]
    assert torch.equal(crop(x, seeded(5)), torch.stack(expected))


def test_a_flip_by_hand():
    x = torch.tensor([[[[1.0, 2.0, 3.0]]]]).repeat(20, 1, 1, 1)
    mirrored = torch.rand(20, generator=seeded(3)) < 0.5
    expected = [[3.0, 2.0, 1.0] if m else [1.0, 2.0, 3.0] for m in mirrored]
    assert flip(x, seeded(3))[:, 0, 0].tolist() == expected
    assert 0 < mirrored.sum() < 20


def test_crop_and_flip_are_one_after_the_other():
    x = pixels(6, 16, 8)
    draws = seeded(1)
    assert torch.equal(crop_flip(x, seeded(1)), flip(crop(x, draws), draws))


@pytest.mark.parametrize(("side", "largest"), [(8, 1), (15, 1), (28, 3), (32, 4)])
def test_the_shift_is_up_to_an_eighth_of_the_side(side, largest):
    image = pixels(1, side, 8, channels=1)
    candidates = moves(image[0], largest, 1)
    outs = crop(image.repeat(400, 1, 1, 1), seeded())
    downs = [shift_of(out, candidates)[0] for out in outs]
    assert (min(downs), max(downs)) == (-largest, largest)


def test_shifts_and_flips_are_uniform():
    count = 3600
    x = pixels(1, channels=1).repeat(count, 1, 1, 1)
    candidates = {(*shift, m): out.flip(2) if m else out for shift, out in moves(x[0]).items() for m in (False, True)}
    stacked = torch.stack(list(candidates.values()))
    out = crop_flip(x, seeded())
    hits = (out[:, None] == stacked[None]).flatten(2).all(dim=2)
    assert (hits.sum(1) == 1).all()
    share = hits.double().mean(0)
    assert len(share) == 18
    assert ((share - 1 / 18).abs() < 4 * (1 / 18 * 17 / 18 / count) ** 0.5).all()


def test_only_a_border_of_the_pads_width_can_turn_zero():
    zero = (crop(torch.ones(500, 1, 16, 32), seeded())[:, 0] == 0).any(dim=0)
    may = torch.ones(16, 32, dtype=torch.bool)
    may[2:-2, 4:-4] = False
    assert torch.equal(zero, may)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_is_a_pure_function_of_batch_and_generator(name):
    x = pixels(10, 16, 9, 3)
    before = x.clone()
    generator = seeded(2)
    outs = [AUGMENTATIONS[name](x, generator), AUGMENTATIONS[name](x, generator)]
    assert torch.equal(x, before)
    assert torch.equal(outs[0], AUGMENTATIONS[name](x, seeded(2)))
    assert not torch.equal(outs[0], outs[1])
    assert (outs[0].shape, outs[0].dtype) == (x.shape, x.dtype)
    # Channels of an image move together.
    image = x[:, :1].repeat(1, 3, 1, 1)
    out = AUGMENTATIONS[name](image, generator)
    assert torch.equal(out[:, 0], out[:, 2])
    # The layout in memory is not seen.
    assert torch.equal(outs[0], AUGMENTATIONS[name](x.to(memory_format=torch.channels_last), seeded(2)))


def test_what_cannot_be_augmented_is_refused():
    for name in AUGMENTATIONS:
        check_augmentation(name, (1, 8, 8))
        for shape in ((10,), (3, 8), (1, 2, 8, 8)):
            with pytest.raises(UsageError, match=r"is for images \(channels, height, width\), not for inputs of shape"):
                check_augmentation(name, shape)
    check_augmentation("flip", (1, 2, 2))
    for name in ("crop", "crop-flip"):
        with pytest.raises(UsageError, match=r"less than a pixel for images of shape \(1, 8, 7\); use 'flip'"):
            check_augmentation(name, (1, 8, 7))
    with pytest.raises(UnknownNameError, match=r"unknown augmentation 'crops'\. Did you mean 'crop'\?"):
        check_augmentation("crops", (3, 32, 32))
