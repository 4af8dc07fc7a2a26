"""What every registered optimiser must do."""

import copy

import pytest
import torch
from torch import nn

from posterity.optim import OPTIMIZERS, build_optimizer

EVERY = pytest.mark.parametrize("name", OPTIMIZERS)
CURVATURE = torch.tensor([1.0, 3.0, 0.3, 2.0])
TARGET = torch.tensor([1.0, -2.0, 0.5, 0.0])


def problem(dtype=torch.float32):
    return nn.Parameter(torch.tensor([3.0, 1.0, -1.0, 2.0], dtype=dtype))


def value(w):
    return (CURVATURE.to(w) * (w - TARGET.to(w)).square()).sum()


def step(optimizer, w):
    optimizer.zero_grad()
    value(w).backward()
    optimizer.step()


def build(name, w, **options):
    return build_optimizer(name, [{"params": [w]}], **options)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_minimises_a_quadratic(name, dtype):
    w = problem(dtype)
    optimizer = build(name, w, lr=0.5 if name == "adagrad" else 0.02)
    start = value(w).item()
    for t in range(800):
        if t == 600:
            optimizer.param_groups[0]["lr"] /= 20
        step(optimizer, w)
    assert value(w).item() < 1e-3 * start


@EVERY
def test_survives_zero_gradients(name):
    w = problem()
    optimizer = build(name, w)
    for _ in range(3):
        w.grad = torch.zeros_like(w)
        optimizer.step()
    # Weight decay may shrink, nothing may blow up.
    torch.testing.assert_close(w.detach(), problem().detach(), rtol=1e-3, atol=1e-3)
    for _ in range(3):
        step(optimizer, w)
    assert torch.isfinite(w).all()


@EVERY
def test_parameters_without_gradient_are_left_alone(name):
    w, idle = problem(), problem()
    optimizer = build_optimizer(name, [{"params": [w]}, {"params": [idle]}])
    step(optimizer, w)
    assert torch.equal(idle, problem())
    assert not torch.equal(w, problem())


@EVERY
def test_restored_state_continues_exactly(name):
    w = problem()
    optimizer = build(name, w)
    for _ in range(7):
        step(optimizer, w)
    twin = nn.Parameter(w.detach().clone())
    restored = build(name, twin, lr=0.7)
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(7):
        step(optimizer, w)
        step(restored, twin)
    assert torch.equal(w, twin)


@EVERY
def test_changed_rate_is_obeyed(name):
    w = problem()
    optimizer = build(name, w)
    step(optimizer, w)
    optimizer.param_groups[0]["lr"] = 0.0
    before = w.detach().clone()
    step(optimizer, w)
    assert torch.equal(w, before)


@EVERY
def test_closure(name):
    w = problem()
    optimizer = build(name, w)

    def closure():
        optimizer.zero_grad()
        loss = value(w)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == value(problem()).item()
    assert not torch.equal(w, problem())
