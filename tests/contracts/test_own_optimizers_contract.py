"""What our own optimisers must do beyond the contract of all."""

import pytest
import torch
from optimizer_problems import EACH_OF_OURS, METHODS, OURS, RECIPES, build, problem, run, step
from torch import nn

from posterity.core.errors import UsageError
from posterity.optim import OPTIMIZERS


def test_ours_are_registered_with_what_they_need():
    assert set(OURS) - set(METHODS) <= set(OPTIMIZERS)
    assert not set(METHODS) & set(OPTIMIZERS)
    assert {n: r.needs for n, r in OPTIMIZERS.items() if r.needs} == {"adabayes": ("batch_size",)}


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


@EACH_OF_OURS
def test_change_is_told_to_autograd(name):
    w = problem()
    optimizer = build(name, w)
    loss = w.square().sum()
    step(optimizer, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


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
