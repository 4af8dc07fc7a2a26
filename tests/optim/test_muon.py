"""Muon against its equations, PyTorch's own, and AdaBayes-FP, which it is without matrices."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.optim import AdaBayesFP, Muon, build_optimizer, effective_rates
from posterity.optim.muon import _pieces, polar
from posterity.training import Settings, plan

LOW, HIGH = 0.67, 1.21  # between which Newton-Schulz leaves singular values that are not tiny


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def taken(optimizer, p, *gradients):
    """The parameter after steps along these gradients."""
    for gradient in gradients:
        p.grad = gradient.clone()
        optimizer.step()
    return p.detach()


def exact(matrix):
    u, _, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    return (u @ v).to(matrix.dtype)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (5, 5), (2, 40)])
def test_the_polar_factor_has_the_singular_vectors_and_values_near_one(shape):
    matrix = drawn(*shape)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.mT @ polar(matrix) @ v.mT
    values = inner.diagonal()
    assert values.min() > LOW
    assert values.max() < HIGH
    assert (inner - torch.diag(values)).abs().max() < 1e-4


def test_the_polar_factor_turns_with_its_matrix_and_not_with_its_size():
    matrix, turn = drawn(4, 9), exact(drawn(4, 4, seed=1))
    torch.testing.assert_close(polar(turn @ matrix), turn @ polar(matrix), atol=1e-4, rtol=0)
    torch.testing.assert_close(polar(1e-8 * matrix), polar(matrix), atol=1e-4, rtol=0)


def test_matrices_of_a_batch_do_not_know_of_each_other():
    pair = drawn(2, 4, 7)
    for alone, together in zip(pair, polar(pair), strict=True):
        torch.testing.assert_close(polar(alone), together, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("shape", "factor"), [((6, 24), 1.0), ((24, 6), 2.0)])
def test_two_steps_by_hand(shape, factor):
    start, first, second = (drawn(*shape, seed=seed) for seed in range(3))
    found = taken(Muon([p := nn.Parameter(start.clone())], lr=0.1, betas=(0.9, 0.999)), p, first, second)
    m1 = 0.1 * first
    m2 = 0.9 * m1 + 0.1 * second
    steps = polar(0.9 * m1 + 0.1 * first) + polar(0.9 * m2 + 0.1 * second)
    torch.testing.assert_close(found, start - 0.1 * factor * steps, atol=1e-5, rtol=0)


def test_pytorchs_own_takes_the_same_steps_but_for_its_eight_bits():
    start, gradients = drawn(20, 50), [drawn(20, 50, seed=seed) for seed in range(1, 6)]
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    a = taken(Muon([ours], lr=0.02), ours, *gradients)
    b = taken(torch.optim.Muon([theirs], lr=0.02, weight_decay=0.0), theirs, *gradients)
    assert (a - b).norm() < 0.02 * (a - start).norm()


def test_a_convolution_is_a_matrix_with_a_row_for_each_output():
    start, gradient = drawn(4, 3, 5, 5), drawn(4, 3, 5, 5, seed=1)
    image = nn.Parameter(start.clone(memory_format=torch.channels_last))
    flat = nn.Parameter(start.flatten(1).clone())
    found = taken(Muon([image]), image, gradient.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(found.flatten(1), taken(Muon([flat]), flat, gradient.flatten(1)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (7, 1), (9, 10)])
def test_without_matrices_it_is_adabayes_fp(shape):
    """Vectors, one row or column, and a matrix that is too wide."""
    start, gradients = drawn(*shape), [drawn(*shape, seed=seed) for seed in range(1, 4)]
    a, b = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    settings = {"lr": 0.02, "lr_sgd": 0.5, "betas": (0.95, 0.999), "batch_size": 10}
    found = taken(Muon([a], most_side=8, **settings), a, *gradients)
    assert torch.equal(found, taken(AdaBayesFP([b], **settings), b, *gradients))


def test_no_gradient_moves_nothing():
    start = drawn(3, 4)
    assert torch.equal(taken(Muon([p := nn.Parameter(start.clone())]), p, torch.zeros(3, 4)), start)


def test_the_length_of_a_step_does_not_depend_on_the_gradient():
    for size in (1e-6, 1.0, 1e6):
        found = taken(Muon([p := nn.Parameter(torch.zeros(4, 6))], lr=0.1), p, size * drawn(4, 6))
        assert LOW * 0.2 < found.norm() < HIGH * 0.2  # lr sqrt(4)


def test_a_flat_parameter_moves_as_its_parts_do():
    shapes = {"a": (4, 6), "b": (4,), "c": (4, 6), "d": (300, 200), "e": (2, 3)}
    parts = [(1, *shape) if len(shape) == 2 else shape for shape in shapes.values()]
    tensors = {name: nn.Parameter(drawn(*shape, seed=n)) for n, (name, shape) in enumerate(shapes.items())}
    vector = nn.Parameter(torch.cat([p.detach().flatten() for p in tensors.values()]))
    one, many = Muon([vector], parts=[parts]), Muon(tensors.values())
    for seed in (10, 11):
        vector.grad = drawn(len(vector), seed=seed)
        for p, gradient in zip(tensors.values(), vector.grad.split([p.numel() for p in tensors.values()]), strict=True):
            p.grad = gradient.view(p.shape).clone()
        one.step()
        many.step()
    torch.testing.assert_close(vector.detach(), torch.cat([p.detach().flatten() for p in tensors.values()]))


def test_parts_that_do_not_add_up_are_refused():
    with pytest.raises(UsageError, match=r"do not add up to it: \[\(1, 2, 3\)\]"):
        Muon([nn.Parameter(torch.zeros(7))], parts=[[(1, 2, 3)]])


def test_the_groups_of_a_convolution_are_matrices_of_their_own():
    layout = Layout.of(nn.Conv2d(4, 6, 3, groups=2, bias=False))
    assert layout.matrices == [(2, 3, 18)]
    gradient = drawn(108)
    vector = nn.Parameter(torch.zeros(108))
    halves = [nn.Parameter(torch.zeros(3, 18)) for _ in range(2)]
    found = taken(Muon([vector], parts=[layout.matrices]), vector, gradient)
    each = [taken(Muon([p]), p, part.view(3, 18)) for p, part in zip(halves, gradient.split(54), strict=True)]
    torch.testing.assert_close(found, torch.cat(each).flatten(), atol=1e-6, rtol=0)


def test_a_network_says_which_of_its_weights_are_matrices():
    model = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 5), nn.LayerNorm([2, 5]), nn.Conv1d(2, 4, 3))
    assert Layout.of(model).matrices == [(240,), (1, 5, 8), (5,), (10,), (10,), (1, 4, 6), (4,)]


def test_weight_decay_maximize_and_short_batches_are_those_of_adabayes():
    start, gradient = drawn(3, 5), drawn(3, 5, seed=1)
    plain = taken(Muon([p := nn.Parameter(start.clone())], lr=0.1), p, gradient) - start
    decayed = taken(Muon([p := nn.Parameter(start.clone())], lr=0.1, weight_decay=0.25), p, gradient)
    torch.testing.assert_close(decayed, 0.75 * start + plain)
    up = taken(Muon([p := nn.Parameter(start.clone())], lr=0.1, maximize=True), p, gradient)
    torch.testing.assert_close(up, start - plain)
    short = Muon([p := nn.Parameter(start.clone())], lr=0.1, batch_size=10)
    short.rows = 5
    taken(short, p, gradient)
    torch.testing.assert_close(short.state[p]["m"], 0.05 * 0.5 * gradient)


def test_half_precision_is_moved_in_single():
    start, gradient = drawn(3, 5).bfloat16(), drawn(3, 5, seed=1).bfloat16()
    optimizer = Muon([p := nn.Parameter(start.clone())], lr=0.1)
    found = taken(optimizer, p, gradient)
    assert optimizer.state[p]["m"].dtype == torch.float32
    alone = taken(Muon([q := nn.Parameter(start.float())], lr=0.1), q, gradient.float())
    torch.testing.assert_close(found.float(), alone, atol=0.02, rtol=0)


def test_the_rate_of_a_matrix_is_the_length_of_its_step_over_that_of_its_average():
    vector = nn.Parameter(torch.zeros(4 * 6 + 4))
    optimizer = Muon([vector], lr=0.1, parts=[[(1, 4, 6), (4,)]])
    gradient = drawn(28)
    taken(optimizer, vector, gradient)
    rates = effective_rates(optimizer, vector)
    wanted = 0.1 * math.sqrt(4) / gradient[:24].norm()
    torch.testing.assert_close(rates[:24], wanted.expand(24))
    other = AdaBayesFP([p := nn.Parameter(torch.zeros(4))], lr=0.1, lr_sgd=0.5, betas=(0.95, 0.999), batch_size=1)
    taken(other, p, gradient[24:])
    torch.testing.assert_close(rates[24:], effective_rates(other, p))


def test_its_parts_are_no_option_of_a_user():
    data = (torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(UsageError, match="unknown option of optimizer 'muon' 'parts'"):
        pt.fit(pt.bayesian(nn.Linear(2, 2)), data, optimizer_options={"parts": 1.0})
    built = build_optimizer("muon", [{"params": [nn.Parameter(torch.zeros(6))]}], parts=[[(1, 2, 3)]])
    assert isinstance(built, Muon)


def test_fit_gives_it_the_shapes_of_means_and_of_weights_without_a_posterior():
    seen = {}

    class Look(pt.Callback):
        def on_start(self, training):
            for group in training.groups:
                seen[group.name] = [_pieces(p, group.settings) for p in group.parameters]

    model = nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    net = pt.bayesian(model, select="4.*")
    data = (torch.arange(8).view(4, 2), torch.tensor([0, 1, 0, 1]))
    pt.fit(net, data, epochs=1, optimizer_sd="muon", callbacks=[Look()])
    assert seen == {
        "mean": [[((1, 2, 4), 8), (None, 2)]],
        "sd": [[(None, 10)]],
        "deterministic": [[(None, 27)], [((1, 4, 6), 24)], [(None, 4)]],  # the look-up table is no matrix
    }


@pytest.mark.parametrize("size", [1e-10, 1e-18, 1e-25, 1e-37])
def test_the_faintest_matrix_has_a_polar_factor(size):
    """The squares in its norm are 0."""
    matrices = drawn(2, 5, 7)
    both = torch.stack([matrices[0] * size, matrices[1]])
    torch.testing.assert_close(polar(both), polar(matrices), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(polar(matrices[0] * size), polar(matrices[0]), rtol=1e-3, atol=1e-3)


def test_a_layer_that_is_no_longer_used_stays_finite():
    p = nn.Parameter(drawn(20, 30))
    optimizer = Muon([p], batch_size=10)
    after = taken(optimizer, p, drawn(20, 30, seed=1), *[torch.zeros(20, 30)] * 3000)
    assert after.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-38])
def test_the_rate_of_a_matrix_without_gradient_is_a_number(dtype, size):
    p = nn.Parameter(drawn(40, 30).to(dtype))
    optimizer = Muon([p], lr=5.0, batch_size=10)
    taken(optimizer, p, torch.full((40, 30), size, dtype=dtype))
    assert effective_rates(optimizer, p).isfinite().all()


def test_weights_without_a_posterior_are_the_matrices_that_they_would_be_with_one():
    """Groups of a convolution each by itself; scales over several axes, and one filter a channel, are none."""
    layers = [nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 3, groups=2), nn.LayerNorm((8, 4, 4)), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(128, 2))
    x, y = drawn(20, 4, 8, 8), torch.arange(20) % 2
    net = pt.bayesian(model, select="4.*", seed=0)
    planned = plan(net, (x, y), None, Settings.of(optimizer="muon"))
    own = dict(zip(net.layout.names, net.layout.matrices, strict=True))
    for group in planned.groups:
        if group.name == "deterministic":
            shapes = {n: tuple(p.shape) for n, p in net.model.named_parameters()}
            parts = [part for (part,) in group.settings["parts"]]
            own |= dict(zip(shapes, parts, strict=True))
    whole = Layout.of(model)
    assert own == dict(zip(whole.names, whole.matrices, strict=True))
    assert own["1.weight"] == (2, 4, 18)
    assert own["2.weight"] == (128,)
