import pytest
import torch
from torch import nn

from posterity.models import densenet121
from posterity.models.densenet import DenseLayer


def by_hand(k, *, colours=3, outputs=10):
    """Weights, layer by layer; a norm has two for each channel that it is given."""
    channels, weights = 2 * k, 9 * colours * 2 * k
    for depth, halved in ((6, True), (12, True), (24, True), (16, False)):
        for _ in range(depth):
            weights += 2 * channels + channels * 4 * k + 2 * 4 * k + 9 * 4 * k * k
            channels += k
        if halved:
            weights += 2 * channels + channels * (channels // 2)
            channels //= 2
    return weights + 2 * channels + (channels + 1) * outputs


def test_size_is_that_which_is_usual_for_cifar(count):
    assert count(densenet121((3, 32, 32), 10)) == by_hand(32) == 6_956_298
    assert count(densenet121((1, 28, 28), 7, width=3)) == by_hand(3, colours=1, outputs=7)


def test_as_many_layers_as_the_name_says():
    model = densenet121((3, 32, 32), 10, width=1)
    # 1 + 2 (6 + 12 + 24 + 16) + 3 transitions + 1
    assert sum(isinstance(m, (nn.Conv2d, nn.Linear)) for m in model.modules()) == 121


@pytest.mark.parametrize(
    ("side", "seen"), [(32, [32, 16, 8, 4]), (28, [28, 14, 7, 3]), (8, [8, 4, 2, 2]), (15, [15, 7, 3, 3])]
)
def test_pixels_and_channels_of_the_blocks(side, seen):
    model = densenet121((2, side, side), 3, width=2)
    features, found = model.stem(torch.zeros(1, 2, side, side)), []
    for number in range(1, 5):
        if number > 1:
            features = model.get_submodule(f"transition{number - 1}")(features)
        features = model.get_submodule(f"block{number}")(features)
        found.append(tuple(features.shape))
    # 2 k + 6 k; half and 12 k more; half and 24 k more; half and 16 k more
    assert found == [(1, channels, pixels, pixels) for channels, pixels in zip((16, 32, 64, 64), seen, strict=True)]


def test_a_layer_keeps_what_it_is_given_and_adds_to_it():
    torch.manual_seed(0)
    layer, x = DenseLayer(3, 2), torch.randn(4, 3, 5, 5)
    out = layer(x)
    assert out.shape == (4, 5, 5, 5)
    assert torch.equal(out[:, :3], x)
    new = layer.body[5](layer.body[3](layer.body[2](layer.body[0](x).relu())).relu())
    torch.testing.assert_close(out[:, 3:], new)
