import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.models import build_model, vgg11, vgg19

# Channels of the convolutions of columns A and E of the paper's table 1.
A = (64, 128, 256, 256, 512, 512, 512, 512)
E = (64,) * 2 + (128,) * 2 + (256,) * 4 + (512,) * 8


def size(channels, *, colours=3, outputs=10, norm=False):
    """Weights of 3 x 3 convolutions with biases, of norms, and of a linear map from the last."""
    inputs = (colours, *channels[:-1])
    convolutions = sum((9 * n_in + 1) * n_out for n_in, n_out in zip(inputs, channels, strict=True))
    return convolutions + norm * 2 * sum(channels) + (channels[-1] + 1) * outputs


@pytest.mark.parametrize(("build", "channels", "plain"), [(vgg11, A, 9_225_610), (vgg19, E, 20_029_514)])
def test_sizes_are_those_of_the_published_convolutions(build, channels, plain, count):
    assert count(build((3, 32, 32), 10)) == size(channels) == plain
    assert count(build((3, 32, 32), 10, batch_norm=True)) == size(channels, norm=True) == plain + 2 * sum(channels)
    assert count(build((1, 28, 28), 7)) == size(channels, colours=1, outputs=7)
    narrow = tuple(n // 16 for n in channels)
    assert count(build((3, 8, 8), 10, width=4, batch_norm=True)) == size(narrow, norm=True)


@pytest.mark.parametrize(
    ("side", "seen", "last"), [(32, [32, 16, 8, 4, 2], 1), (28, [32, 16, 8, 4, 2], 1), (8, [8, 4, 2, 2, 2], 1)]
)
def test_pixels_that_the_stages_see(side, seen, last):
    model = vgg19((1, side, side), 3, width=1)
    features, found = torch.zeros(1, 1, side, side), []
    for number in range(1, 6):
        stage = model.get_submodule(f"stage{number}")
        found.append(stage[0](features).shape[-1])
        features = stage(features)
    assert found == seen
    assert features.shape == (1, 8, last, last)


def test_what_an_image_says_arrives_at_the_end():
    torch.manual_seed(0)
    x = torch.randn(8, 3, 32, 32)
    ours, torchs = vgg19((3, 32, 32), 10, width=16), vgg19((3, 32, 32), 10, width=16)
    for module in torchs.modules():
        if isinstance(module, nn.Conv2d):
            nn.Conv2d.reset_parameters(module)
    with torch.no_grad():
        ours_spread, torchs_spread = (net(x).std(0).mean().item() for net in (ours, torchs))
    assert ours_spread > 0.01
    assert torchs_spread < 1e-4


def test_members_of_an_ensemble_start_as_a_vgg_does():
    net = pt.ensemble(pt.bayesian(vgg11((1, 8, 8), 3, width=8), seed=0), 2, seed=0)
    for member in net.posterior.parts:
        drawn = net.layout.views(member.mean.detach())
        assert drawn["stage5.2.weight"].std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)
        assert not drawn["stage5.2.bias"].any()


def test_biases_before_a_norm_are_there_and_without_effect(random_images):
    model = vgg11((3, 32, 32), 4, width=4, batch_norm=True)
    x, _ = random_images((3, 32, 32))
    with torch.no_grad():
        before = model(x)
        model.stage2[0].bias += 1
        torch.testing.assert_close(model(x), before, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["vgg11", "vgg19"])
@pytest.mark.parametrize("shape", [(3, 64, 64), (3, 32, 28), (32, 32), (784,)])
def test_other_images_are_refused(name, shape):
    with pytest.raises(UsageError, match=rf"{name} takes square images of 32, 28 or 8 pixels.*try model 'mlp' or"):
        build_model(name, shape, 10)


def test_options():
    with pytest.raises(UsageError, match="the width of vgg11 must be at least 1, not 0"):
        vgg11((3, 32, 32), 10, width=0)
    with pytest.raises(UsageError, match="option batch_norm of model 'vgg19' takes true or false"):
        build_model("vgg19", (3, 32, 32), 10, batch_norm=1)
