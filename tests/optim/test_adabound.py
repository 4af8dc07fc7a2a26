import math

import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import AdaBound, AMSBound, build_optimizer
from posterity.optim.adabound import bounds


def vector(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def feed(optimizer, w, gradients):
    for gradient in gradients:
        w.grad = torch.as_tensor(gradient, dtype=w.dtype)
        optimizer.step()


def gradients(steps, size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-3, 2, size, dtype=torch.float64)
    return [scale * torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(steps)]


def test_two_steps_by_hand():
    w = vector(1.0)
    feed(AdaBound([w], lr=0.1, final_lr=0.5, gamma=1.0, betas=(0.5, 0.75), eps=0.0), w, [[2.0], [-4.0]])
    # t = 1: m = 1, v = 1; rate = 0.1 * 0.5 / 0.5 / 1 = 0.1, clipped to [0.25, 1]
    # t = 2: m = -1.5, v = 0.75 + 4 = 4.75; rate = 0.1 sqrt(7/16) / 0.75 / sqrt(4.75) = 0.040, clipped to [1/3, 3/4]
    assert w.item() == pytest.approx(1 - 0.25 * 1 + 1.5 / 3)


def test_amsbound_keeps_the_maximum():
    w, twin = vector(0.0), vector(0.0)
    settings = {"lr": 0.1, "final_lr": 0.1, "gamma": 1e-3, "betas": (0.0, 0.5), "eps": 0.0}
    feed(AMSBound([w], **settings), w, [[8.0], [0.5]])
    feed(AdaBound([twin], amsbound=True, **settings), twin, [[8.0], [0.5]])
    # v = 32, then 16.125 (maximum 32); rates 0.1 sqrt(1/2) / sqrt(32) and 0.1 sqrt(3/4) / sqrt(32)
    expected = -8 * 0.1 * math.sqrt(0.5 / 32) - 0.5 * 0.1 * math.sqrt(0.75 / 32)
    assert w.item() == pytest.approx(expected)
    assert torch.equal(w, twin)


def test_bounds_close_on_the_final_rate():
    assert bounds(0.1, 1e-3, 1) == pytest.approx((0.1 * (1 - 1 / 1.001), 0.1 * 1001))
    assert bounds(0.1, 1e-3, 10**9) == pytest.approx((0.1, 0.1), rel=1e-5)


def test_first_step_is_adams_where_the_bounds_allow():
    w, twin = vector(1.0, 1.0, 1.0, 1.0), vector(1.0, 1.0, 1.0, 1.0)
    gradient = [[1e-4, -0.3, 2.0, 9.0]]  # rates 10 ... 1e-4 within [1e-4, 100]
    feed(AdaBound([w], lr=1e-3, eps=0.0), w, gradient)
    feed(torch.optim.Adam([twin], lr=1e-3, eps=0.0), twin, gradient)
    torch.testing.assert_close(w, twin)


def test_becomes_sgd_with_the_final_rate():
    w, expected = vector(*[1.0] * 5), torch.ones(5, dtype=torch.float64)
    optimizer = AdaBound([w], final_lr=0.02)
    feed(optimizer, w, [torch.zeros(5)])
    optimizer.state[w]["step"] = 10**10
    average = torch.zeros(5, dtype=torch.float64)
    for gradient in gradients(20):
        feed(optimizer, w, [gradient])
        average = 0.9 * average + 0.1 * gradient
        expected = expected - 0.02 * average
    torch.testing.assert_close(w.detach(), expected, rtol=1e-5, atol=1e-7)


def test_final_rate_follows_the_schedule():
    w = vector(1.0)
    optimizer = AdaBound([w], lr=0.1, final_lr=0.5, gamma=1e9, betas=(0.0, 0.9))
    optimizer.param_groups[0]["lr"] = 0.05
    feed(optimizer, w, [[1.0]])
    assert w.item() == pytest.approx(1 - 0.25)


def test_a_rate_of_zero_at_first():
    w = vector(1.0)
    optimizer = AdaBound([w], lr=0.0)
    feed(optimizer, w, [[1.0]])
    assert w.item() == 1.0
    optimizer.param_groups[0]["lr"] = 1e-3
    feed(optimizer, w, [[1.0]])
    assert w.item() < 1.0
    assert math.isfinite(w.item())


@pytest.mark.parametrize("ams", [False, True])
def test_agrees_with_pytorch_optimizer(ams):
    peers = pytest.importorskip("pytorch_optimizer", reason="pytorch-optimizer is not installed")
    w, twin = vector(*[1.0] * 5), vector(*[1.0] * 5)
    settings = {"lr": 1e-2, "final_lr": 0.1, "gamma": 1e-2, "weight_decay": 0.03}
    ours = AdaBound([w], amsbound=ams, **settings)
    theirs = peers.AdaBound([twin], ams_bound=ams, weight_decouple=False, **settings)
    for t, gradient in enumerate(gradients(100)):
        for optimizer, p in ((ours, w), (theirs, twin)):
            optimizer.param_groups[0]["lr"] = 1e-2 / (1 + t // 30)
            feed(optimizer, p, [gradient])
    if ams:  # theirs adds eps to the maximum at another place
        torch.testing.assert_close(w, twin, rtol=1e-5, atol=1e-5)
    else:
        torch.testing.assert_close(w, twin, rtol=1e-9, atol=1e-9)


def test_radam_agrees_with_pytorch_optimizer():
    peers = pytest.importorskip("pytorch_optimizer", reason="pytorch-optimizer is not installed")
    w, twin = vector(*[1.0] * 5), vector(*[1.0] * 5)
    ours = build_optimizer("radam", [{"params": [w]}], lr=1e-2, eps=1e-16)
    theirs = peers.RAdam([twin], lr=1e-2, eps=1e-16, degenerated_to_sgd=True)
    for gradient in gradients(100):
        feed(ours, w, [gradient])
        feed(theirs, twin, [gradient])
    torch.testing.assert_close(w, twin, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"betas": (1.0, 0.9)}, r"beta1 must lie in \[0, 1\), got 1.0"),
        ({"betas": (0.9, -0.1)}, "beta2.*-0.1"),
        ({"final_lr": 0.0}, "final_lr.*0.0"),
        ({"gamma": -1.0}, "gamma.*-1.0"),
        ({"eps": -1e-8}, "eps.*-1e-08"),
        ({"weight_decay": -2.0}, "weight decay.*-2.0"),
        ({"lr": float("nan")}, "learning rate.*nan"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(UsageError, match=message):
        AdaBound([vector(1.0)], **settings)
