import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.models import build_model, resnet20, resnet34
from posterity.models.resnet import Block, PaddedIdentity, projection


def normed(n_in, n_out, pixels=9):
    """Weights of a convolution without biases, and of its norm."""
    return pixels * n_in * n_out + 2 * n_out


def stage(n_in, n_out, blocks, *, projected=False):
    """Weights of a stage."""
    return normed(n_in, n_out) + (2 * blocks - 1) * normed(n_out, n_out) + projected * normed(n_in, n_out, 1)


def test_resnet20_has_the_published_size(count):
    def by_hand(w, colours=3, outputs=10):
        stages = stage(w, w, 3) + stage(w, 2 * w, 3) + stage(2 * w, 4 * w, 3)
        return normed(colours, w) + stages + (4 * w + 1) * outputs

    # 0.27 million in table 6 of the paper: 464 + 14,016 + 51,072 + 203,520 + 650.
    assert count(resnet20((3, 32, 32), 10)) == by_hand(16) == 269_722
    assert count(resnet20((1, 28, 28), 7, width=3)) == by_hand(3, 1, 7)


def test_resnet34_has_the_size_that_is_usual_for_cifar(count):
    def by_hand(w, colours=3, outputs=10):
        wider = zip((4, 6, 3), (w, 2 * w, 4 * w), strict=True)
        stages = stage(w, w, 3) + sum(stage(n, 2 * n, blocks, projected=True) for blocks, n in wider)
        return normed(colours, w) + stages + (8 * w + 1) * outputs

    assert count(resnet34((3, 32, 32), 10)) == by_hand(64) == 21_282_122
    assert count(resnet34((1, 8, 8), 7, width=3)) == by_hand(3, 1, 7)


@pytest.mark.parametrize(("build", "layers", "shortcuts"), [(resnet20, 20, 2), (resnet34, 34, 3)])
def test_as_many_layers_as_the_name_says(build, layers, shortcuts):
    model = build((3, 32, 32), 10, width=1)
    found = [m for m in model.modules() if isinstance(m, nn.Linear) or getattr(m, "kernel_size", 0) == (3, 3)]
    assert len(found) == layers
    assert sum(isinstance(m, Block) and not isinstance(m.shortcut, nn.Identity) for m in model.modules()) == shortcuts


@pytest.mark.parametrize(
    ("build", "shape", "seen"),
    [
        (resnet20, (32, 32), [(32, 32), (16, 16), (8, 8)]),
        (resnet20, (28, 28), [(28, 28), (14, 14), (7, 7)]),
        (resnet34, (32, 32), [(32, 32), (16, 16), (8, 8), (4, 4)]),
        (resnet34, (8, 8), [(8, 8), (4, 4), (2, 2), (2, 2)]),
        (resnet34, (9, 40), [(9, 40), (5, 20), (3, 10), (3, 10)]),
    ],
)
def test_pixels_of_the_stages(build, shape, seen):
    model = build((2, *shape), 3, width=1)
    features, found = model.stem(torch.zeros(1, 2, *shape)), []
    for number in range(1, len(seen) + 1):
        features = model.get_submodule(f"stage{number}")(features)
        found.append(tuple(features.shape[-2:]))
        assert features.shape[1] == 2 ** (number - 1)
    assert found == seen


def test_shortcut_a_by_hand():
    x = torch.arange(18.0).view(1, 2, 3, 3)
    out = PaddedIdentity(2, 3, 2)(x)
    expected = [[[0.0, 2.0], [6.0, 8.0]], [[9.0, 11.0], [15.0, 17.0]], [[0.0, 0.0], [0.0, 0.0]]]
    assert out.tolist() == [expected]


def test_shortcut_b_is_a_convolution_with_a_stride():
    torch.manual_seed(0)
    shortcut, x = projection(3, 5, 2), torch.randn(4, 3, 7, 8)
    _, linear, norm = shortcut
    torch.testing.assert_close(shortcut(x), norm(nn.functional.conv2d(x, linear.weight, stride=2)))


@pytest.mark.parametrize("width", [1, 4, 7])
def test_narrow_shortcuts_have_right_gradients_in_channels_last(width):
    # A convolution with a stride would end the process here (see projection).
    torch.manual_seed(0)
    shortcut = projection(width, 2 * width, 2)
    x = torch.randn(16, width, 32, 32)
    by_format = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        shortcut.to(memory_format=memory_format).zero_grad()
        shortcut(x.contiguous(memory_format=memory_format)).pow(3).mean().backward()
        by_format.append(shortcut[1].weight.grad.clone())
    torch.testing.assert_close(*by_format, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("shortcut", [PaddedIdentity, projection])
def test_a_block_whose_body_is_zero_is_its_shortcut(shortcut):
    x = torch.randn(2, 3, 4, 4)
    same, other = (Block(3, n, stride=stride, shortcut=shortcut) for n, stride in ((3, 1), (6, 2)))
    for block in (same, other):
        nn.init.zeros_(block.body[-1].weight)
    torch.testing.assert_close(same(x), x.relu())
    torch.testing.assert_close(other(x), other.shortcut(x).relu())
    assert other(x).shape == (2, 6, 2, 2)


@pytest.mark.parametrize("name", ["resnet20", "resnet34", "densenet121"])
@pytest.mark.parametrize("shape", [(3, 7, 32), (32, 32), (784,)])
def test_other_inputs_are_refused(name, shape):
    with pytest.raises(UsageError, match=rf"{name} takes images .* of at least 8 pixels.*try model 'mlp', or 'cnn'"):
        build_model(name, shape, 10)


@pytest.mark.parametrize("name", ["resnet20", "resnet34", "densenet121"])
def test_a_width_is_at_least_one(name):
    with pytest.raises(UsageError, match=f"the width of {name} must be at least 1, not 0"):
        build_model(name, (3, 32, 32), 10, width=0)
