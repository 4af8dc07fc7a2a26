"""The compiled passes against double precision, and against PyTorch's functions, which are taken without them."""

import importlib.util
import math

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from posterity.core import kernels
from posterity.core.randomness import NoiseSource
from posterity.optim import muon
from posterity.optim.muon import polar

pytestmark = pytest.mark.skipif(
    kernels._kernels is None, reason="no compiled passes: no C compiler was there when posterity was installed"
)
MANY = kernels.MANY + 3 * 4096 + 17  # neither a multiple of a chunk nor of a vector instruction's width
EPS = torch.finfo(torch.float32).eps


def test_which_vectors_they_serve():
    long = torch.zeros(MANY)
    assert kernels.compiled(long, torch.zeros(3))
    assert not kernels.compiled(torch.zeros(kernels.MANY - 1))
    assert not kernels.compiled(long.double())
    assert not kernels.compiled(long, torch.zeros(3, dtype=torch.bfloat16))
    assert not kernels.compiled(torch.zeros(2 * MANY)[::2])
    assert not kernels.compiled(long.to("meta"))
    with FakeTensorMode() as mode:
        assert not kernels.compiled(mode.from_tensor(long))


def test_noise_is_that_of_the_words(plain):
    """The inverse of the normal distribution of the same words, and the generator ends where NumPy's does."""
    source, twin = NoiseSource(3), NoiseSource(3)
    found = source.normal((2, MANY), torch.zeros(()))
    following = source.normal((5,), torch.zeros(()))
    plain()
    expected = twin.normal((2, MANY), torch.zeros(()))
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-9)
    assert torch.equal(following, twin.normal((5,), torch.zeros(())))
    assert torch.equal(source.state(), twin.state())


def test_noise_against_double_precision():
    out = torch.empty(2 * MANY)
    kernels.normal(np.random.SFC64(0), out)
    words = torch.from_numpy(np.random.SFC64(0).random_raw(MANY).view(np.int32))
    u = words.float() * 2.0**-31 * (1 - 2.0**-24)
    torch.testing.assert_close(out.double(), math.sqrt(2) * torch.erfinv(u.double()), rtol=4e-7, atol=0)


@pytest.mark.parametrize("with_noise", [True, False])
@pytest.mark.parametrize("middle", [-12.0, -3.0, 0.0, 30.0])
def test_drawn_weights_and_sums(middle, with_noise):
    mean, shift, noise = torch.randn(3, MANY)
    rho = middle + 3 * torch.randn(MANY)
    sd, weights = torch.empty(2, MANY)
    sums = kernels.draw(mean, shift, rho, noise if with_noise else None, sd, weights)
    exact = F.softplus(rho.double())
    torch.testing.assert_close(sd.double(), exact, rtol=6e-7, atol=0)
    if with_noise:
        torch.testing.assert_close(weights, torch.addcmul(mean, sd, noise))
    logs = exact.log()
    assert sums.log_sd == pytest.approx(logs.sum().item(), abs=4 * EPS * logs.abs().sum().item())
    assert sums.squared_sd == pytest.approx(exact.square().sum().item(), rel=1e-5)
    assert sums.squared_shift == pytest.approx(shift.double().square().sum().item(), rel=1e-6)


@pytest.mark.parametrize("odd", [81.0, -81.0, math.nan, math.inf])
def test_a_rho_out_of_reach_is_said(odd):
    mean, shift, rho, noise, sd, weights = torch.randn(6, MANY)
    rho[MANY - 1] = odd
    assert kernels.draw(mean, shift, rho, noise, sd, weights) is None


@pytest.mark.parametrize("each", [True, False], ids=["by weight", "one precision"])
@pytest.mark.parametrize("factor", [0.0, 0.3])
def test_gradients(each, factor):
    grad, noise, shift = torch.randn(3, MANY)
    rho = -3 + 3 * torch.randn(MANY)
    rho[:3] = torch.tensor([-87.5 if factor else -110.0, 90.0, 0.0])  # with a KL, 1 / sd must be finite
    sd = F.softplus(rho)
    precision = torch.rand(MANY if each else 1) + 0.5
    to_mean, to_rho = torch.empty(MANY), noise.clone()
    kernels.gradient(grad, to_rho, (shift, sd, rho), precision, factor, to_mean)
    g, z, m, s, r, p = (v.double() for v in (grad, noise, shift, sd, rho, precision))
    torch.testing.assert_close(to_mean.double(), g + factor * p * m, rtol=1e-6, atol=1e-6)
    terms = (g * z, factor * p * s, -factor / s if factor else torch.zeros_like(s))
    error = (to_rho.double() - sum(terms) * r.sigmoid()).abs()
    size = sum(term.abs() for term in terms) * r.sigmoid()
    assert (error <= 1e-6 * size + 1e-37).all()


def test_results_do_not_depend_on_the_threads():
    mean, shift, rho, noise, grad = torch.randn(5, MANY)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            sd, weights, to_mean = torch.empty(3, MANY)
            to_rho, drawn = noise.clone(), torch.empty(MANY)
            sums = kernels.draw(mean, shift, rho, noise, sd, weights)
            kernels.gradient(grad, to_rho, (shift, sd, rho), torch.ones(1), 0.3, to_mean)
            kernels.normal(np.random.SFC64(4), drawn)
            found.append((sums, torch.stack([sd, weights, to_mean, to_rho, drawn])))
    finally:
        torch.set_num_threads(before)
    for sums, vectors in found[1:]:
        assert sums == found[0][0]
        assert torch.equal(vectors, found[0][1])


def step(vectors, *, steps, plainly):
    """Mean, momentum, curvature and rho after steps of IVON on gradients that follow from the mean."""
    mean, momentum, curvature, rho = (v.clone() for v in vectors)
    options = {"lr": 1e-3, "ess": 5e4, "delta": 1e-3, "beta1": 0.9, "beta2": 0.999}
    for t in range(1, steps + 1):
        grad, grad_rho = 0.01 * mean.sin(), 1e-5 * mean.cos()
        if not plainly:
            kernels.ivon(mean, momentum, curvature, grad, grad_rho, rho, t=t, **options)
            continue
        lr, ess, delta, beta1, beta2 = options.values()
        sd = (curvature * ess).rsqrt()
        hessian = grad_rho / -torch.expm1(-sd) / sd  # d/d sd = d/d rho / sigmoid(rho), over sd
        excess = curvature - hessian - delta
        momentum = beta1 * momentum + (1 - beta1) * grad
        curvature = curvature - (1 - beta2) * excess + 0.5 * (1 - beta2) ** 2 * excess**2 / curvature
        mean = mean - lr * (momentum / (1 - beta1**t) + delta * mean) / curvature
        rho = torch.expm1((curvature * ess).rsqrt()).log()
    return mean, momentum, curvature, rho


def test_a_step_of_ivon():
    """Against its equations in double precision, at sds from 0.001 on."""
    sd = torch.logspace(-3, math.log10(kernels.MOST_SD), MANY)
    curvature = 1 / (5e4 * sd**2)
    start = torch.randn(MANY), torch.zeros(MANY), curvature, torch.expm1(sd).log()
    ours = step(start, steps=3, plainly=False)
    theirs = step([v.double() for v in start], steps=3, plainly=True)
    for found, exact in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=2e-6, atol=1e-6)


def test_curvature_does_not_drift_by_rounding():
    """Changes of about its rounding's size, up and down alike, leave log h where it was in the mean."""
    h = torch.rand(MANY) + 0.5
    start, zeros, rho = h.clone().double(), torch.zeros(MANY), torch.zeros(MANY)
    options = {"lr": 0.0, "ess": 1e8, "delta": 0.0, "beta1": 0.9, "beta2": 0.99999}
    g = torch.Generator().manual_seed(0)
    exact = start.clone()
    for t in range(1, 101):
        share = 0.01 * torch.randn(MANY, generator=g)  # (h - h_hat) / h, by grad_rho = h_hat sd (1 - e^-sd)
        sd = (h.double() * 1e8).rsqrt()
        grad_rho = ((1 - share.double()) * h * sd * -torch.expm1(-sd)).float()
        a = 1e-5 * (1 - (grad_rho.double() / (h * sd * -torch.expm1(-sd))))
        exact *= 1 - a + 0.5 * a * a
        kernels.ivon(zeros, zeros, h, zeros, grad_rho, rho, t=t, **options)
    assert (h.double() / exact).log().mean().abs() < 1e-8


def test_a_curvature_that_overflows_shows_in_rho():
    zeros, rho = torch.zeros(MANY), torch.zeros(MANY)
    h, grad_rho = torch.ones(MANY), torch.zeros(MANY)
    grad_rho[3] = 1e30
    kernels.ivon(zeros, zeros, h, zeros, grad_rho, rho, lr=0.1, ess=100.0, delta=0.0, beta1=0.9, beta2=0.9, t=1)
    assert h[3] == math.inf
    assert rho[3] == -math.inf
    assert rho[4:].isfinite().all()


def test_a_step_of_ivon_voids_graphs():
    mean, rho = torch.randn(MANY, requires_grad=True), torch.zeros(MANY)
    square = mean.square().sum()
    with torch.no_grad():
        ones = torch.ones(MANY)
        kernels.ivon(
            mean, rho * 0, ones, rho * 0, rho * 0, rho, lr=0.1, ess=100.0, delta=0.1, beta1=0.9, beta2=0.9, t=1
        )
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()


@pytest.mark.parametrize(
    "shape", [(10, 400), (120, 400), (400, 120), (64, 64), (128, 129), (2, 3), (17, 16), (15, 33), (1, 5), (4, 1)]
)
def test_polar_factors(shape, plain):
    """Against PyTorch's functions in double precision, which take another order of the products."""
    matrices = torch.randn(3, *shape)
    matrices[2] = matrices[0] * 2**-100  # its squares underflow
    assert kernels.compiled_polar(matrices)
    found = polar(matrices)
    assert torch.equal(found[2], found[0])
    plain()
    assert not kernels.compiled_polar(matrices)
    error = (found - polar(matrices.double())).abs().amax()
    assert error < 3e-7 * muon.NEWTON_SCHULZ[0] ** muon.ITERATIONS  # by which small singular values grow


def test_the_polar_factor_of_nothing_is_nothing():
    assert torch.equal(polar(torch.zeros(2, 8, 30)), torch.zeros(2, 8, 30))
    assert polar(torch.full((8, 30), math.nan)).isnan().all()


def test_which_matrices_are_compiled():
    assert kernels.compiled_polar(torch.zeros(kernels.SIDE, 1000))
    assert not kernels.compiled_polar(torch.zeros(kernels.SIDE + 1, 1000))
    assert not kernels.compiled_polar(torch.zeros(8, 30).double())
    assert not kernels.compiled_polar(torch.zeros(8, 30).mT)


def test_what_an_older_checkout_compiled_is_not_called(monkeypatch):
    monkeypatch.setattr(kernels._kernels, "VERSION", kernels.VERSION - 1)
    spec = importlib.util.find_spec("posterity.core.kernels")
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again._kernels is None
