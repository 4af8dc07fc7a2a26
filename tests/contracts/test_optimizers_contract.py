"""What every optimiser must do."""

import copy
import io
import pickle

import pytest
import torch
from optimizer_problems import (
    EVERY,
    NOISY,
    build,
    cold,
    problem,
    run,
    step,
    value,
)
from torch import nn

from posterity.core.errors import UsageError
from posterity.storage.tree import pack, unpack


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


WAYS = {"deepcopy": copy.deepcopy, "torch.save": through_a_file, "checkpoint": lambda state: unpack(*pack(state))}


@EVERY
@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-3), (torch.float64, 1e-3), (torch.bfloat16, 0.1)])
def test_minimises_a_quadratic(name, dtype, share):
    w = problem(dtype)
    optimizer = build(name, w, **cold(name))
    start = value(w).item()
    run(optimizer, w, 300)
    optimizer.param_groups[0]["lr"] /= 10
    run(optimizer, w, 100)
    assert w.dtype == dtype
    assert value(w).item() < share * start


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_gradients_do_nothing(name, dtype):
    w = problem(dtype)
    optimizer = build(name, w, **{**cold(name), **({"weight_decay": 0.0} if name in ("ivon", "adamw") else {})})

    def closure():
        w.grad = torch.zeros_like(w)
        return w.grad.sum()

    for _ in range(3):
        optimizer.step(closure)
    assert torch.equal(w, problem(dtype))
    run(optimizer, w, 3)
    assert torch.isfinite(w).all()


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_restored_state_continues_to_the_last_bit(name, dtype, way):
    w = problem(dtype)
    optimizer = build(name, w)
    run(optimizer, w, 7)
    state = WAYS[way](optimizer.state_dict())
    twin = nn.Parameter(w.detach().clone())
    restored = build(name, twin, lr=0.7)
    restored.load_state_dict(state)
    run(optimizer, w, 7)
    run(restored, twin, 7)
    assert torch.equal(w, twin)


@EVERY
@pytest.mark.parametrize("way", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copied_optimizer_continues(name, way):
    w = problem()
    optimizer = build(name, w)
    run(optimizer, w, 3)
    twin, other = way((w, optimizer))
    run(optimizer, w, 3)
    run(other, twin, 3)
    assert torch.equal(w, twin)
    assert twin is not w


@EVERY
def test_groups_have_rates_of_their_own(name):
    w, still = problem(), problem()
    optimizer = build(name, [{"params": [w]}, {"params": [still], "lr": 0.0}])

    def closure():
        optimizer.zero_grad()
        loss = value(w) + value(still)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert torch.equal(still, problem())
    assert not torch.equal(w, problem())


@EVERY
def test_parameters_without_gradient_are_left_alone(name):
    w, idle = problem(), problem()
    optimizer = build(name, [{"params": [w]}, {"params": [idle]}])
    run(optimizer, w, 2)
    assert torch.equal(idle, problem())
    assert not torch.equal(w, problem())


@EVERY
def test_closure_returns_its_loss(name):
    w = problem()
    loss = step(build(name, w), w)
    assert loss.item() == pytest.approx(value(problem()).item(), rel=1e-2 if name == "ivon" else 1e-7)


@EVERY
def test_schedulers_drive_the_rate(name):
    w = problem()
    optimizer = build(name, w)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.0 if t >= 2 else 1.0 / (t + 1))
    for t in range(4):
        before = w.detach().clone()
        step(optimizer, w)
        assert torch.equal(w, before) == (t >= 2)
        scheduler.step()


@EVERY
def test_gradients_can_be_cleared_both_ways(name):
    w = problem()
    optimizer = build(name, w)
    run(optimizer, w, 1)
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(w.grad, torch.zeros(4))
    optimizer.zero_grad()
    assert w.grad is None


@EVERY
def test_negative_rates_are_refused(name):
    with pytest.raises(UsageError, match=r"-0\.5"):
        build(name, problem(), lr=-0.5)


@EVERY
def test_maximize_is_minimising_the_negative(name):
    up, down = problem(), problem()
    if "maximize" not in build(name, problem()).defaults:
        assert name in NOISY
        return
    maximizer, minimizer = build(name, up, maximize=True), build(name, down)
    for _ in range(5):
        step(maximizer, up, sign=-1.0)
        step(minimizer, down)
    assert torch.equal(up, down)
