import math

import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import AdaBayes, AdaBayesFP
from posterity.optim.adabayes import steady_precision

BOTH = pytest.mark.parametrize("make", [AdaBayes, AdaBayesFP])


def vector(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def feed(optimizer, w, gradients):
    for gradient in gradients:
        w.grad = torch.as_tensor(gradient, dtype=w.dtype)
        optimizer.step()


def noise(steps, size=6, scale=1.0):
    generator = torch.Generator().manual_seed(1)
    return [scale * torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(steps)]


def test_two_steps_of_the_filter_by_hand():
    w = vector(1.0)
    optimizer = AdaBayes([w], lr=0.1, lr_sgd=1.0, batch_size=2, reduction="sum", weight_decay=0.01)
    feed(optimizer, w, [[2.0]])
    # s2 = 1/2, s2_post = 1/(2 + 4), <g> = 2
    first = 0.99 - 2 / 6
    assert w.item() == pytest.approx(first)
    prior = (1 - 0.1**2 / (2 * 0.5)) ** 2 / 6 + 0.1**2
    feed(optimizer, w, [[1.0]])
    average = (0.9 * 0.2 + 0.1 * 1.0) / (1 - 0.9**2)
    assert w.item() == pytest.approx(0.99 * first - average / (1 / prior + 1))


def test_two_steps_of_the_fixed_point_by_hand():
    w = vector(1.0)
    optimizer = AdaBayesFP([w], lr=0.1, lr_sgd=1.0, batch_size=2, reduction="sum", weight_decay=0.01)
    feed(optimizer, w, [[2.0]])
    first = 0.99 - 2 / (1 + math.sqrt(1 + 4 / 0.01))
    assert w.item() == pytest.approx(first)
    feed(optimizer, w, [[1.0]])
    average = 0.28 / 0.19
    square = (0.999 * 0.004 + 0.001) / (1 - 0.999**2)
    assert w.item() == pytest.approx(0.99 * first - average / (1 + math.sqrt(1 + square / 0.01)))


@BOTH
def test_mean_and_summed_losses_are_one(make):
    w, twin = vector(*[1.0] * 6), vector(*[1.0] * 6)
    settings = {"lr": 1e-2, "lr_sgd": 0.3, "batch_size": 50}
    mean, total = make([w], reduction="mean", **settings), make([twin], reduction="sum", **settings)
    for gradient in noise(30):
        feed(mean, w, [gradient])
        feed(total, twin, [50 * gradient])
    torch.testing.assert_close(w, twin)


def test_fixed_point_of_the_filter():
    # For constant g^2 the filter settles where one more round changes nothing, which eq. 20 gives for eta^2 << s2.
    eta, s2 = 1e-2, 0.1
    size = torch.logspace(-1, 1, 9, dtype=torch.float64)
    w = nn.Parameter(torch.zeros_like(size))
    optimizer = AdaBayes([w], lr=eta, lr_sgd=s2, batch_size=1, reduction="sum", betas=(0.0, 0.999))
    feed(optimizer, w, [size] * 7000)
    last = w.detach().clone()
    feed(optimizer, w, [size])
    s2_post = (last - w.detach()) / size
    torch.testing.assert_close(1 / s2_post, steady_precision(size**2, eta, s2), rtol=0.06, atol=0.0)
    prior = (1 - eta**2 / (2 * s2)) ** 2 * s2_post + eta**2
    torch.testing.assert_close(1 / prior + size**2, 1 / s2_post, rtol=1e-6, atol=0.0)


@BOTH
def test_small_gradients_give_sgd(make):
    w, expected, average = vector(*[1.0] * 6), torch.ones(6, dtype=torch.float64), 0.0
    optimizer = make([w], lr=1e-3, lr_sgd=0.1, batch_size=20)
    for t, gradient in enumerate(noise(50, scale=1e-7), start=1):
        feed(optimizer, w, [gradient])
        average = 0.9 * average + 0.1 * gradient
        expected = expected - 0.1 * average / (1 - 0.9**t)
    torch.testing.assert_close(w.detach() - 1, expected - 1, rtol=0.02 if make is AdaBayes else 1e-4, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_fixed_point_without_sgd_is_adamw(reduction):
    w, twin = vector(*[1.0] * 6), vector(*[1.0] * 6)
    ours = AdaBayesFP([w], lr=1e-2, lr_sgd=1e12, batch_size=10, reduction=reduction, weight_decay=1e-3)
    theirs = torch.optim.AdamW([twin], lr=1e-2, eps=0.0, weight_decay=1e-3 / 1e-2)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, 100) for o in (ours, theirs)]
    for gradient in noise(100):
        for optimizer, p in ((ours, w), (theirs, twin)):
            feed(optimizer, p, [gradient])
        for schedule in schedules:
            schedule.step()
    torch.testing.assert_close(w, twin, rtol=1e-6, atol=1e-6)


@BOTH
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0])
def test_a_schedule_scales_the_whole_rate(make, scale):
    # At the steady state half the learning rate is half the step, whether it is SGD's or Adam's.
    w = vector(1.0)
    optimizer = make([w], lr=0.01, lr_sgd=0.1, batch_size=1, betas=(0.0, 0.9))
    feed(optimizer, w, [[scale]] * 1000)
    steps = []
    for lr in (0.01, 0.005):
        optimizer.param_groups[0]["lr"] = lr
        before = w.item()
        feed(optimizer, w, [[scale]])
        steps.append(before - w.item())
    assert steps[1] / steps[0] == pytest.approx(0.5, rel=1e-2)


def test_a_short_batch_of_the_filter_by_hand():
    """Batches of 8 rows and one of 2: the mean's gradient counts twice, while s2 = lr_sgd / 8 stays."""
    w = vector(1.0)
    optimizer = AdaBayes([w], lr=0.1, lr_sgd=4.0, batch_size=8)
    feed(optimizer, w, [[0.25]])
    # s2 = 1/2, g = 2, s2_post = 1/(2 + 4), <g> = 2
    first = 1 - 2 / 6
    assert w.item() == pytest.approx(first)
    prior = (1 - 0.1**2 / (2 * 0.5)) ** 2 / 6 + 0.1**2
    optimizer.rows = 2
    feed(optimizer, w, [[0.5]])  # g = 1
    average = (0.9 * 0.2 + 0.1 * 1.0) / (1 - 0.9**2)
    second = first - average / (1 / prior + 1)
    assert w.item() == pytest.approx(second)
    prior = (1 - 0.1**2 / (2 * 0.5)) ** 2 / (1 / prior + 1) + 0.1**2
    optimizer.rows = None
    feed(optimizer, w, [[0.25]])
    average = (0.9 * 0.28 + 0.1 * 2.0) / (1 - 0.9**3)
    assert w.item() == pytest.approx(second - average / (1 / prior + 4))


def test_a_short_batch_of_the_fixed_point_by_hand():
    w = vector(1.0)
    optimizer = AdaBayesFP([w], lr=0.1, lr_sgd=8.0, batch_size=8)
    feed(optimizer, w, [[0.25]])
    first = 1 - 2 / (0.5 + math.sqrt(0.25 + 4 / 0.01))
    assert w.item() == pytest.approx(first)
    optimizer.rows = 2
    feed(optimizer, w, [[0.5]])
    average = 0.28 / 0.19
    square = (0.999 * 0.004 + 0.001) / (1 - 0.999**2)
    assert w.item() == pytest.approx(first - average / (0.5 + math.sqrt(0.25 + square / 0.01)))


@BOTH
def test_rows_are_those_of_a_mean_loss(make):
    """The summed loss's gradient is what it is, and a whole batch's rows change no bit."""
    results = []
    for rows in (None, 50):
        w, settings = vector(*[1.0] * 6), {"lr": 1e-2, "lr_sgd": 0.3, "batch_size": 50}
        optimizer = make([w], **settings)
        optimizer.rows = rows
        feed(optimizer, w, noise(5))
        results.append(w.detach())
    assert torch.equal(*results)
    w, twin = vector(*[1.0] * 6), vector(*[1.0] * 6)
    mean, total = make([w], **settings), make([twin], reduction="sum", **settings)
    for rows, gradient in zip([50, 3, 50, 20, 1], noise(5), strict=True):
        mean.rows = total.rows = rows
        feed(mean, w, [gradient])
        feed(total, twin, [rows * gradient])
    torch.testing.assert_close(w, twin)


@BOTH
def test_rows_need_a_batch_size_and_are_positive(make):
    w = vector(1.0)
    optimizer = make([w])
    optimizer.rows = 3
    with pytest.raises(UsageError, match="batch_size"):
        feed(optimizer, w, [[1.0]])
    with pytest.raises(UsageError, match="rows must be positive and finite, got 0"):
        optimizer.rows = 0


def test_batch_size_by_the_loop():
    w, twin = vector(1.0, 2.0), vector(1.0, 2.0)
    given, told = AdaBayes([w], batch_size=32), AdaBayes([twin])
    assert told.batch_size is None
    twin.grad = torch.ones_like(twin)
    with pytest.raises(UsageError, match="batch_size"):
        told.step()
    told.batch_size = 32
    feed(given, w, [[1.0, 0.1]] * 3)
    feed(told, twin, [[1.0, 0.1]] * 3)
    assert torch.equal(w, twin)
    assert told.batch_size == 32
    with pytest.raises(UsageError, match="0"):
        told.batch_size = 0


def test_the_fixed_point_needs_no_batch_size_for_a_mean_loss():
    results = []
    for batch_size in (None, 7, 4096):
        w = vector(1.0, 2.0)
        feed(AdaBayesFP([w], batch_size=batch_size), w, [[1.0, 0.1]] * 3)
        results.append(w.detach())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    w = vector(1.0)
    with pytest.raises(UsageError, match="batch_size"):
        feed(AdaBayesFP([w], reduction="sum"), w, [[1.0]])


def test_a_rate_beyond_the_filter_stays_finite():
    w = vector(1.0, 1.0)  # eta^2 > 2 s2: the process forgets at once
    feed(AdaBayes([w], lr=1.0, lr_sgd=0.1, batch_size=100), w, [[1.0, 0.0]] * 20)
    assert torch.isfinite(w).all()


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reduction": "none"}, "reduction must be one of mean, sum, got 'none'"),
        ({"betas": (0.9, 1.0)}, "beta2.*1.0"),
        ({"lr_sgd": 0.0}, "lr_sgd.*0.0"),
        ({"lr": -1.0}, "learning rate.*-1.0"),
        ({"batch_size": -3}, "batch size.*-3"),
        ({"weight_decay": 2.0}, "weight_decay.*2.0"),
    ],
)
def test_wrong_settings(make, settings, message):
    with pytest.raises(UsageError, match=message):
        make([vector(1.0)], **settings)
