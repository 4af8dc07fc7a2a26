"""What the deep networks for images have in common, plain and Bayesian."""

import math

import pytest
import torch

import posterity as pt
from posterity.models import build_model
from posterity.models.images import strides

# Narrow ones, wide enough that none of their rectifiers is dead for all of 16 images.
DEEP = {
    "vgg11": ("vgg11", {"width": 8}),
    "vgg11, batch norm": ("vgg11", {"width": 4, "batch_norm": True}),
    "vgg19": ("vgg19", {"width": 8}),
    "vgg19, batch norm": ("vgg19", {"width": 4, "batch_norm": True}),
    "resnet20": ("resnet20", {"width": 4}),
    "resnet34": ("resnet34", {"width": 4}),
    "densenet121": ("densenet121", {"width": 4}),
}
NORMED = [name for name in DEEP if DEEP[name][1]["width"] == 4]


def made(name, shape, outputs=4):
    torch.manual_seed(0)
    model, options = DEEP[name]
    return build_model(model, shape, outputs, **options)


@pytest.mark.parametrize(
    ("side", "steps", "found"),
    [(32, 4, [2, 2, 2, 2]), (28, 3, [2, 2, 2]), (8, 4, [2, 2, 1, 1]), (9, 3, [2, 2, 1]), (3, 2, [1, 1]), (64, 0, [])],
)
def test_strides(side, steps, found):
    assert strides(side, steps) == found


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8)])
def test_outputs_have_their_shape_even_for_a_single_image_in_training(name, shape):
    model = made(name, shape)
    for images in (1, 3):
        out = model(torch.randn(images, *shape))
        assert out.shape == (images, 4)
        assert torch.isfinite(out).all()


@pytest.mark.parametrize("name", DEEP)
def test_gradients_reach_all_weights(name, random_images):
    model = made(name, (3, 32, 32))
    x, y = random_images((3, 32, 32))
    torch.nn.functional.cross_entropy(model(x), y).backward()
    # A norm takes out the bias before it (test_vgg.py).
    convolutions = {f"{name}.bias" for name, m in model.named_modules() if isinstance(m, torch.nn.Conv2d)}
    idle = convolutions if name.endswith("batch norm") else set()
    for weight, parameter in model.named_parameters():
        assert weight in idle or (parameter.grad is not None and parameter.grad.abs().max() > 1e-8), weight


@pytest.mark.parametrize("name", DEEP)
def test_each_becomes_bayesian_and_trains(name, random_images):
    x, y = random_images((3, 32, 32))
    model = made(name, (3, 32, 32))
    net = pt.bayesian(model, seed=0)
    assert net.num_weights == sum(p.numel() for p in model.parameters())
    mean, rho = net.posterior.mean.detach().clone(), net.posterior.rho.detach().clone()
    result = pt.fit(net, (x, y), epochs=1, batch_size=16, temperature=0.1, seed=0)  # by default 0 in the first step
    assert result.history[0]["step"] == 1
    assert math.isfinite(result.history[0]["loss"])
    for layer, moved in net.layout.sum_by_layer((net.posterior.mean - mean).abs()).items():
        assert moved > 0, layer
    assert (net.posterior.rho != rho).float().mean() > 0.9
    prediction = net.predict(x, samples=3, seed=0)
    torch.testing.assert_close(prediction.mean.sum(-1), torch.ones(16))


@pytest.mark.parametrize("name", DEEP)
def test_it_fits_a_few_images(name, random_images):
    x, y = random_images((1, 8, 8))
    # vgg19 has over 300,000 weights here: at a temperature of 1e-4 their KL would be 47 nats for each of the 16 images,
    # and pull all means to zero.
    net = pt.bayesian(made(name, (1, 8, 8)), relative_sd=0.01, seed=0)
    settings = {"epochs": 15 if name in NORMED else 40, "batch_size": 16, "lr": 1e-3, "temperature": 1e-6, "seed": 0}
    history = pt.fit(net, (x, y), optimizer="adam", **settings).history
    assert history[-1]["nll"] < 1.1  # of classes that are not told apart log 4 = 1.386


@pytest.mark.parametrize("name", NORMED)
def test_batch_norm_gathers_statistics_in_training_and_keeps_them_in_prediction(name, random_images):
    x, y = random_images((1, 8, 8))
    net = pt.bayesian(made(name, (1, 8, 8)), seed=0)
    fresh = {name: b.clone() for name, b in net.model.named_buffers()}
    pt.fit(net, (x, y), epochs=1, batch_size=8, samples=2, seed=0)
    trained = {name: b.clone() for name, b in net.model.named_buffers()}
    for buffer in fresh:
        assert not torch.equal(trained[buffer], fresh[buffer]), buffer
    assert all(b > 0 for buffer, b in trained.items() if buffer.endswith("num_batches_tracked"))
    # With the statistics of training an image's prediction does not depend on those beside it, and changes none.
    together, alone = net.predict(x, samples=3, seed=1).mean, net.predict(x[:1], samples=3, seed=1).mean
    torch.testing.assert_close(together[:1], alone, atol=1e-4, rtol=1e-3)
    for buffer, value in net.model.named_buffers():
        assert torch.equal(value, trained[buffer]), buffer
