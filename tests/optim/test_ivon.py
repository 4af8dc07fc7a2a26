import copy
import math

import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.optim import IVON
from posterity.optim.ivon import advance


def vector(*values, dtype=torch.float64):
    return nn.Parameter(torch.tensor(values, dtype=dtype))


@pytest.fixture
def global_noise(monkeypatch):
    """Noise from PyTorch's global generator, as ivon-opt draws it."""
    monkeypatch.setattr(NoiseSource, "normal", lambda self, shape, like: torch.randn(shape, dtype=like.dtype))


def test_one_update_by_hand():
    values = (2.0, 0.5, 1.25, 3.0, 0.04)  # h = 1
    mean, momentum, curvature, grad, noise_grad = (torch.tensor([v], dtype=torch.float64) for v in values)
    advance(mean, momentum, curvature, grad, noise_grad, lr=0.1, ess=50.0, delta=0.25, beta1=0.8, beta2=0.9, t=2)
    h_hat = 50 * 1.25 * 0.04  # 2.5
    new = 0.9 + 0.1 * h_hat + 0.5 * 0.1**2 * (1 - h_hat) ** 2 / 1.25
    average = 0.8 * 0.5 + 0.2 * 3.0
    assert curvature.item() == pytest.approx(new + 0.25)
    assert momentum.item() == pytest.approx(average)
    assert mean.item() == pytest.approx(2 - 0.1 * (average / (1 - 0.8**2) + 0.25 * 2) / (new + 0.25))


def test_one_step_by_hand(monkeypatch):
    monkeypatch.setattr(NoiseSource, "normal", lambda self, shape, like: torch.full(shape, 2.0, dtype=like.dtype))
    w = vector(1.0)
    optimizer = IVON([w], lr=0.5, ess=25.0, hess_init=0.75, beta2=0.9, weight_decay=0.25)
    with optimizer.sampled_weights():
        assert w.item() == pytest.approx(1 + 2 / 5)
        w.square().sum().backward()
    assert w.item() == 1.0
    optimizer.step()
    h_hat = 25 * 1.0 * 2.8 * 0.4
    h = 0.9 * 0.75 + 0.1 * h_hat + 0.5 * 0.01 * (0.75 - h_hat) ** 2 / 1.0
    assert w.item() == pytest.approx(1 - 0.5 * 1.0 * (2.8 + 0.25) / (h + 0.25))  # lr times hess_init + delta = 1
    (mean,), (sd,) = optimizer.posterior()
    assert mean.tolist() == w.tolist()
    assert sd.item() == pytest.approx(1 / math.sqrt(25 * (h + 0.25)))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("rescale", [True, False])
def test_agrees_with_ivon_opt(samples, rescale, global_noise):
    ivon = pytest.importorskip("ivon", reason="ivon-opt is not installed")
    settings = {"lr": 0.01, "ess": 100.0, "hess_init": 0.5, "beta2": 0.99, "weight_decay": 0.01}
    start, curvature = torch.linspace(-1, 1, 6, dtype=torch.float64), torch.logspace(-1, 1, 6, dtype=torch.float64)
    w, twin = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours = IVON([w], rescale_lr=rescale, **settings)
    theirs = ivon.IVON([twin], rescale_lr=rescale, **settings)
    for p, optimizer, sample in (
        (w, ours, ours.sampled_weights),
        (twin, theirs, lambda: theirs.sampled_params(train=True)),
    ):
        torch.manual_seed(0)
        for _ in range(100):
            for _ in range(samples):
                with sample():
                    optimizer.zero_grad()
                    (curvature * p.square() + 0.3 * p).sum().backward()
            optimizer.step()
    torch.testing.assert_close(w, twin, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(ours.state[w]["curvature"], theirs.param_groups[0]["hess"] + 0.01, rtol=1e-8, atol=1e-8)


def test_finds_the_posterior_of_a_quadratic():
    # loss = a/2 (w - c)^2 a datum, prior N(0, 1/(ess delta)): N(a c/(a + delta), 1/(ess (a + delta))).
    a, c, ess, delta = torch.tensor([0.5, 1.0, 4.0]), torch.tensor([1.0, -2.0, 0.3]), 200.0, 0.1
    w = nn.Parameter(torch.zeros(3))
    optimizer = IVON([w], lr=0.02, ess=ess, hess_init=1.0, beta2=0.995, weight_decay=delta)
    tail = []
    for t in range(3000):
        optimizer.step(lambda: ((loss := (a / 2 * (w - c).square()).sum()).backward(), loss)[1])
        if t >= 1000:
            tail.append(torch.stack([*optimizer.posterior()[0], *optimizer.posterior()[1]]))
    mean, sd = torch.stack(tail).mean(0)
    torch.testing.assert_close(mean, a * c / (a + delta), rtol=0.02, atol=0.01)
    torch.testing.assert_close(sd, (ess * (a + delta)).rsqrt(), rtol=0.1, atol=0.0)


def test_samples_have_the_posteriors_moments():
    w = nn.Parameter(torch.full((20_000,), 3.0))
    optimizer = IVON([w], ess=16.0, hess_init=0.2, weight_decay=0.05)
    with optimizer.sampled_weights():
        sample = w.detach().clone()
    assert torch.equal(w, torch.full((20_000,), 3.0))
    assert sample.mean().item() == pytest.approx(3, abs=4 * 0.5 / math.sqrt(20_000))
    assert sample.std().item() == pytest.approx(0.5, rel=0.03)


def test_curvature_stays_positive():
    mean, momentum, curvature = torch.zeros(200), torch.zeros(200), torch.full((200,), 0.1)
    noise = torch.randn(10, 200, generator=torch.Generator().manual_seed(0)) / 100
    for t, noise_grad in enumerate(noise, start=1):
        numbers = {"lr": 0.1, "ess": 1e3, "delta": 1e-2, "beta1": 0.9, "beta2": 0.5, "t": t}
        advance(mean, momentum, curvature, torch.zeros(200), noise_grad.clone(), **numbers)
        assert (curvature > 0).all()


def test_a_pass_without_backward_is_not_counted():
    w = vector(1.0, 2.0)
    optimizer = IVON([w], ess=10.0)
    w.grad = torch.ones_like(w)
    with optimizer.sampled_weights(), torch.no_grad():
        w.sum()
    with pytest.raises(UsageError, match=r"sampled_weights\(\)"):
        optimizer.step()


def test_the_means_come_back_after_an_error():
    w = vector(1.0, 2.0)
    optimizer = IVON([w], ess=10.0)

    def failing():
        with optimizer.sampled_weights():
            w.sum().backward()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert w.tolist() == [1.0, 2.0]
    with pytest.raises(UsageError, match="sampled"):
        optimizer.step()
    with optimizer.sampled_weights(), pytest.raises(UsageError, match="active already"):  # noqa: SIM117
        with optimizer.sampled_weights():
            pass


def test_backward_outside_is_refused_by_autograd():
    w = vector(1.0, 2.0)
    optimizer = IVON([w], ess=10.0)
    with optimizer.sampled_weights():
        loss = w.square().sum()
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_saved_between_the_samples_of_a_step():
    def sample(optimizer, w):
        with optimizer.sampled_weights():
            w.square().sum().backward()

    w = vector(1.0, 2.0)
    optimizer = IVON([w], ess=10.0, seed=3)
    sample(optimizer, w)
    twin = vector(1.0, 2.0)
    other = IVON([twin], ess=10.0, seed=4)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, p in ((optimizer, w), (other, twin)):
        sample(one, p)
        one.step()
    assert torch.equal(w, twin)


def test_seeds():
    results = []
    for seed in (0, 0, 1):
        w = vector(1.0)
        IVON([w], ess=10.0, seed=seed).step(lambda w=w: ((loss := w.square().sum()).backward(), loss)[1])
        results.append(w.item())
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ess": 0.0}, "ess.*0.0"),
        ({"hess_init": -1.0}, "hess_init.*-1.0"),
        ({"beta1": 1.0}, "beta1.*1.0"),
        ({"beta2": -0.1}, "beta2.*-0.1"),
        ({"weight_decay": -1.0}, "weight decay.*-1.0"),
        ({"lr": -1.0}, "learning rate.*-1.0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(UsageError, match=message):
        IVON([vector(1.0)], **{"ess": 10.0, **settings})
