import math

import numpy as np
import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import YellowFin, build_optimizer, check_optimizer_options
from posterity.optim.yellowfin import Tuning, cubic_root, single_step


@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.1, 1.0, 4.0, 50.0, 1e6, 1e15])
def test_cubic_against_numpy(p):
    # p x = (1 - x)^3  <=>  x^3 - 3 x^2 + (3 + p) x - 1 = 0
    (root,) = [r.real for r in np.roots([1, -3, 3 + p, -1]) if abs(r.imag) < 1e-6 and 0 <= r.real <= 1][:1]
    assert cubic_root(p) == pytest.approx(root, rel=1e-3 if p < 1e-9 else 1e-6)
    assert p * cubic_root(p) == pytest.approx((1 - cubic_root(p)) ** 3, rel=1e-9, abs=1e-3 if p > 1e9 else 1e-9)


def test_single_step_is_the_minimum_under_its_constraint():
    for h_min, h_max, variance, distance in [(1.0, 1.1, 2.0, 3.0), (0.3, 0.5, 0.1, 0.2), (2.0, 90.0, 1.0, 1.0)]:
        mu, lr = single_step(h_min, h_max, variance, distance)
        k = math.sqrt(h_max / h_min)
        x = np.linspace((k - 1) / (k + 1), 1, 400_001)
        best = x[np.argmin(x**2 * distance**2 + ((1 - x) ** 2 / h_min) ** 2 * variance)]
        assert math.sqrt(mu) == pytest.approx(best, abs=1e-5)
        assert lr == pytest.approx((1 - best) ** 2 / h_min, rel=1e-4)


def test_without_variance_the_momentum_is_at_its_bound():
    mu, lr = single_step(1.0, 9.0, 0.0, 5.0)
    assert mu == pytest.approx(0.25)
    assert lr == pytest.approx(0.25)


def test_two_steps_by_hand():
    w = nn.Parameter(torch.tensor([1.0, 0.0], dtype=torch.float64))
    optimizer = YellowFin([w], beta=0.5)
    w.grad = torch.tensor([2.0, 0.0], dtype=torch.float64)
    optimizer.step()
    # One gradient: no variance, h_min = h_max = 4, so mu = 0 and lr = 1/4; the ramp is at 1/200.
    assert optimizer.measurements() == pytest.approx({"h_min": 4, "h_max": 4, "C": 0, "D": 0.5, "mu": 0, "lr": 0.25})
    assert w[0].item() == pytest.approx(1 - 0.25 / 200 * 2)

    w.grad = torch.tensor([0.0, 1.0], dtype=torch.float64)
    optimizer.step()
    # Weights 1/3 and 2/3 after the correction: h_max = 4; h_min = 4^(1/3) 1^(2/3); <|g|> = 4/3, <|g|^2> = 2;
    # <g> = (2/3, 2/3), so C = 2 - 8/9; D = (1/3) (1/2) + (2/3) (2/3).
    h_min, variance, distance = 4 ** (1 / 3), 2 - 8 / 9, 1 / 6 + 4 / 9
    mu, lr = single_step(h_min, 4.0, variance, distance)
    expected = {"h_min": h_min, "h_max": 4, "C": variance, "D": distance}
    expected |= {"mu": 2 / 3 * mu, "lr": 0.25 / 3 + 2 / 3 * lr}
    assert optimizer.measurements() == pytest.approx(expected)
    rate, momentum = expected["lr"] * 2 / 200, expected["mu"]
    assert w.tolist() == pytest.approx([1 - 0.25 / 200 * 2 - rate * momentum * 2, -rate])


def stepped(*gradients, **settings):
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = YellowFin([w], **settings)
    path = [0.0]
    for gradient in gradients:
        w.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        path.append(w.item())
    return optimizer, path


def test_two_steps_with_a_fixed_momentum_by_hand():
    optimizer, path = stepped(2.0, 1.0, momentum=0.25, beta=0.5)
    # h_min = 4, then 4^(1/3) 1^(2/3); sqrt(mu) = 1/2, so lr = 1/4 / h_min, averaged with weights 1/3 and 2/3.
    h_min = 4 ** (1 / 3)
    averaged = 1 / 16 / 3 + 2 / 3 / 4 / h_min
    found = optimizer.measurements()
    assert found["mu"] == pytest.approx(0.25)
    assert found["lr"] == pytest.approx(min(averaged, 0.25 / h_min))
    first = -1 / 16 / 200 * 2
    assert path == pytest.approx([0, first, first - found["lr"] * 2 / 200 * (0.25 * 2 + 1)])


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_fixed_momentum_by_name(momentum):
    w = nn.Parameter(torch.full((20,), 3.0))
    optimizer = build_optimizer("yellowfin", [{"params": [w]}], momentum=momentum)
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        w.grad = w.detach() + 0.1 * torch.randn(20, generator=generator)
        optimizer.step()
        assert optimizer.measurements()["mu"] == pytest.approx(momentum)
    assert w.abs().max() < 3
    check_optimizer_options("yellowfin", {"momentum": momentum})
    with pytest.raises(UsageError, match="option momentum of optimizer 'yellowfin' takes a number, not 'high'"):
        check_optimizer_options("yellowfin", {"momentum": "high"})


def test_the_step_is_clipped_by_what_was_the_greatest_gradient():
    optimizer, path = stepped(2.0, 6.0)
    found = optimizer.measurements()
    # h_max was 4: of the gradient 6 the step takes 2; what is measured is 6.
    assert path[2] - path[1] == pytest.approx(-found["lr"] * 2 / 200 * (found["mu"] * 2 + 2))
    assert found["h_max"] == pytest.approx(math.sqrt(4 * 36), rel=1e-3)
    assert stepped(6.0, 2.0)[0].measurements()["h_max"] == pytest.approx(36)


def test_an_explosion_is_measured_as_a_hundred_times_the_greatest():
    exploded, same = stepped(1.0, 1e6, 2.0)[0], stepped(1.0, 10.0, 2.0)[0]
    assert exploded.measurements() == pytest.approx(same.measurements())
    torch.testing.assert_close(*(o.state[o.param_groups[0]["params"][0]]["mean"] for o in (exploded, same)))


def test_the_rate_goes_with_the_averaged_momentum():
    # A tiny gradient, then ordinary ones: an average of lr would stay at 1e6/t.
    generator = torch.Generator().manual_seed(0)
    optimizer, _ = stepped(1e-3, *torch.randn(30, generator=generator).tolist())
    found, averaged = optimizer.measurements(), optimizer.shared["lr"] / (1 - 0.999**31)
    assert found["lr"] == pytest.approx((1 - math.sqrt(found["mu"])) ** 2 / found["h_min"])
    assert averaged > 10 * found["lr"]
    # Gradients that fall to nothing: now it is the average that holds the rate back.
    optimizer, _ = stepped(*(math.exp(-t / 5) for t in range(100)))
    found = optimizer.measurements()
    assert found["lr"] == pytest.approx(optimizer.shared["lr"] / (1 - 0.999**100))
    assert found["lr"] < (1 - math.sqrt(found["mu"])) ** 2 / found["h_min"]


def test_a_still_group_is_measured_and_not_moved():
    moving, still = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = YellowFin([{"params": [moving]}, {"params": [still], "still": True}])
    moving.grad, still.grad = torch.tensor([3.0]), torch.tensor([4.0])
    optimizer.step()
    assert optimizer.measurements()["h_max"] == pytest.approx(25)
    assert (moving.item() < 1, still.item()) == (True, 1.0)
    assert optimizer.state[still]["u"].item() == 0.0


def test_window_forgets():
    tuning = Tuning()
    for square in [100.0, *[1.0] * 19]:
        tuning = tuning.after(square, 0.0, 0.0)
    assert tuning.smoothed(0.0)["h_max"] == pytest.approx(100)
    assert tuning.after(1.0, 0.0, 0.0).smoothed(0.0)["h_max"] == pytest.approx(1)


def test_measurements_on_a_noisy_quadratic():
    # Gradient h (w - 0) + noise of variance s^2 an element, held at w: what is measured is known.
    generator = torch.Generator().manual_seed(0)
    n, s = 400, 0.5
    w = nn.Parameter(torch.full((n,), 0.2, dtype=torch.float64))
    optimizer = YellowFin([w], lr=0.0)
    for _ in range(3000):
        w.grad = w.detach() + s * torch.randn(n, generator=generator, dtype=torch.float64)
        optimizer.step()
    found = optimizer.measurements()
    norm2 = n * (0.2**2 + s**2)
    # <g> itself keeps a share (1 - beta)/(1 + beta) of the variance.
    assert found["C"] == pytest.approx(n * s**2, rel=0.02)
    assert found["D"] == pytest.approx(1 / math.sqrt(norm2), rel=0.02)
    assert found["h_min"] < norm2 < found["h_max"]
    mu, lr = single_step(found["h_min"], found["h_max"], found["C"], found["D"])
    assert found["mu"] == pytest.approx(mu, rel=0.05)
    assert found["lr"] == pytest.approx(lr, rel=0.05)


def test_settles_on_a_noisy_quadratic():
    generator = torch.Generator().manual_seed(0)
    w = nn.Parameter(torch.full((20,), 3.0))
    optimizer = YellowFin([w])
    for _ in range(3000):
        w.grad = w.detach() + 0.1 * torch.randn(20, generator=generator)
        optimizer.step()
    found = optimizer.measurements()
    assert w.abs().max() < 0.3
    assert 0 < found["mu"] < 1
    assert found["lr"] * found["h_max"] > 0


def test_one_tuning_for_all_groups():
    whole = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    parts = [nn.Parameter(torch.tensor([1.0])), nn.Parameter(torch.tensor([2.0, 3.0]))]
    one, two = YellowFin([whole]), YellowFin([{"params": [parts[0]]}, {"params": [parts[1]], "lr": 0.5}])
    for gradient in torch.randn(10, 3, generator=torch.Generator().manual_seed(0)):
        whole.grad, parts[0].grad, parts[1].grad = gradient, gradient[:1].clone(), gradient[1:].clone()
        one.step()
        two.step()
    assert one.measurements() == pytest.approx(two.measurements(), rel=1e-5)
    assert parts[0].item() == pytest.approx(whole[0].item())
    half = torch.tensor([2.0, 3.0]) + 0.5 * (whole[1:].detach() - torch.tensor([2.0, 3.0]))
    torch.testing.assert_close(parts[1].detach(), half)


def test_zero_gradients_measure_nothing():
    w = nn.Parameter(torch.ones(3))
    optimizer = YellowFin([w])
    assert set(optimizer.measurements().values()) == {0.0}
    w.grad = torch.zeros(3)
    optimizer.step()
    assert set(optimizer.measurements().values()) == {0.0}
    assert torch.equal(w, torch.ones(3))


def test_wrong_settings():
    with pytest.raises(UsageError, match=r"beta.*1\.5"):
        YellowFin([nn.Parameter(torch.ones(1))], beta=1.5)
    with pytest.raises(UsageError, match=r"momentum.*1\.0"):
        YellowFin([nn.Parameter(torch.ones(1))], momentum=1.0)
