"""What every optimiser must do on plain parameters: those registered, ours and PyTorch's, and IVON and Langevin's."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import IVON, OPTIMIZERS, SGLD, Recipe, build_optimizer, construct
from posterity.storage.tree import pack, unpack

# IVON and Langevin dynamics are methods of training, not optimisers by name, but optimisers all the same.
METHODS = {
    "ivon": Recipe(IVON, 0.1, needs=("ess",)),
    "sgld": Recipe(SGLD, 0.1, needs=("num_data",)),
    "psgld": Recipe(SGLD, 0.02, {"preconditioned": True}, needs=("num_data",)),
}
RECIPES = {**OPTIMIZERS, **METHODS}
NEEDS = {"batch_size": 1, "ess": 1e6, "num_data": 1.0}
RATES = {"adagrad": 0.5, "yellowfin": 2.0, "sgd": 0.01, "adabayes": 0.05, **{n: r.lr for n, r in METHODS.items()}}
OURS = {"adabound": 2, "amsbound": 3, "yellowfin": 2, "adabayes": 2, "adabayes-fp": 2, "ivon": 2, "sgld": 0, "psgld": 1}
NOISY = ("sgld", "psgld", "ivon")

EVERY = pytest.mark.parametrize("name", RECIPES)
EACH_OF_OURS = pytest.mark.parametrize("name", OURS)
CURVATURE = torch.tensor([1.0, 3.0, 0.3, 2.0])
TARGET = torch.tensor([1.0, -2.0, 0.5, 0.0])


def problem(dtype=torch.float32):
    return nn.Parameter(torch.tensor([3.0, 1.0, -1.0, 2.0], dtype=dtype))


def value(w):
    return (CURVATURE.to(w) * (w - TARGET.to(w)).square()).sum()


def build(name, w, **settings):
    recipe = RECIPES[name]
    given = {**{key: NEEDS[key] for key in recipe.needs}, **settings}
    lr = given.pop("lr", RATES.get(name, 0.02))
    groups = w if isinstance(w, list) else [{"params": [w]}]
    if name in OPTIMIZERS:
        return build_optimizer(name, groups, lr=lr, **given)
    return construct(name, recipe.make, groups, lr=lr, settings={**recipe.settings, **given})


def cold(name):
    return {"temperature": 0.0} if name in ("sgld", "psgld") else {}


def step(optimizer, w, sign=1.0):
    """With a closure, which is how all of them, IVON too, take a plain step."""

    def closure():
        optimizer.zero_grad()
        loss = sign * value(w)
        loss.backward()
        return loss

    return optimizer.step(closure)


def run(optimizer, w, steps):
    for _ in range(steps):
        step(optimizer, w)


def test_ours_are_registered_with_what_they_need():
    assert set(OURS) - set(METHODS) <= set(OPTIMIZERS)
    assert not set(METHODS) & set(OPTIMIZERS)
    assert {n: r.needs for n, r in OPTIMIZERS.items() if r.needs} == {"adabayes": ("batch_size",)}


@EVERY
@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-3), (torch.float64, 1e-3), (torch.bfloat16, 0.1)])
def test_minimises_a_quadratic(name, dtype, share):
    w = problem(dtype)
    optimizer = build(name, w, **cold(name))
    start = value(w).item()
    for t in range(700):
        if t == 500:
            optimizer.param_groups[0]["lr"] /= 10
        step(optimizer, w)
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
@pytest.mark.parametrize("way", ["deepcopy", "torch.save", "checkpoint"])
def test_restored_state_continues_to_the_last_bit(name, dtype, way):
    w = problem(dtype)
    optimizer = build(name, w)
    run(optimizer, w, 7)
    state = optimizer.state_dict()
    if way == "deepcopy":
        state = copy.deepcopy(state)
    elif way == "torch.save":
        file = io.BytesIO()
        torch.save(state, file)
        state = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    else:
        state = unpack(*pack(state))
    twin = nn.Parameter(w.detach().clone())
    restored = build(name, twin, lr=0.7)
    restored.load_state_dict(state)
    run(optimizer, w, 7)
    run(restored, twin, 7)
    assert torch.equal(w, twin)


@EACH_OF_OURS
def test_loading_shares_nothing_with_the_source(name):
    w, twin = problem(), problem()
    optimizer, other = build(name, w), build(name, twin)
    run(optimizer, w, 3)
    with torch.no_grad():
        twin.copy_(w)
    other.load_state_dict(optimizer.state_dict())
    run(optimizer, w, 5)
    run(other, twin, 5)
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


@EACH_OF_OURS
def test_change_is_told_to_autograd(name):
    w = problem()
    optimizer = build(name, w)
    loss = w.square().sum()
    step(optimizer, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@EVERY
def test_negative_rates_are_refused(name):
    with pytest.raises(UsageError, match=r"-0\.5"):
        build(name, problem(), lr=-0.5)


@EACH_OF_OURS
def test_negative_rates_of_a_group_are_refused(name):
    with pytest.raises(UsageError, match=r"learning rate.*-0\.5"):
        build(name, [{"params": [problem()]}, {"params": [problem()], "lr": -0.5}])


@EACH_OF_OURS
@pytest.mark.parametrize("kind", ["sparse", "complex"])
def test_sparse_and_complex_gradients_are_refused(name, kind):
    w = nn.Parameter(torch.ones(3, dtype=torch.complex64 if kind == "complex" else torch.float32))
    optimizer = build(name, w)

    def closure():
        w.grad = torch.ones(3).to_sparse() if kind == "sparse" else torch.ones(3, dtype=torch.complex64)
        return 0.0

    with pytest.raises(UsageError, match=kind):
        optimizer.step(closure)
    assert torch.equal(w, torch.ones(3))


@EACH_OF_OURS
def test_the_order_in_memory_does_not_matter(name):
    start = torch.arange(12.0).reshape(3, 4)
    plain, turned = nn.Parameter(start.clone()), nn.Parameter(start.t().contiguous().t())
    for w in (plain, turned):
        optimizer = build(name, w)
        for _ in range(3):
            optimizer.step(lambda w=w: (setattr(w, "grad", w.detach().clone()), 0.0)[1])
    assert not turned.is_contiguous()
    torch.testing.assert_close(plain, turned)


@EACH_OF_OURS
def test_long_vectors_are_walked_over_whole(name, monkeypatch):
    start, grad = torch.linspace(-1, 1, 50), torch.linspace(1, 2, 50)
    results = []
    for block in (50, 16):  # 16 is a multiple of the four numbers of a random word, and does not divide 50
        monkeypatch.setattr("posterity.optim.stepping.BLOCK", block)
        w = nn.Parameter(start.clone())
        optimizer = build(name, w)
        for _ in range(3):
            optimizer.step(lambda w=w: (setattr(w, "grad", grad.clone()), 0.0)[1])
        results.append(w.detach())
    torch.testing.assert_close(*results)


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


@EACH_OF_OURS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_state_is_what_the_equations_need(name, dtype):
    w = problem(dtype)
    optimizer = build(name, w)
    run(optimizer, w, 2)
    vectors = [v for v in optimizer.state[w].values() if isinstance(v, torch.Tensor)]
    assert len(vectors) == OURS[name]
    assert all(v.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype) for v in vectors)


@EACH_OF_OURS
def test_hyperparameters_are_keyword_only(name):
    with pytest.raises(TypeError):
        RECIPES[name].make([problem()], 0.1)
