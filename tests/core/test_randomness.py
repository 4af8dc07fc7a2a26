import copy

import numpy as np
import pytest
import torch
from scipy import stats

from posterity.core.randomness import NoiseSource, derive, fresh_seed, generator

SINGLE, DOUBLE, HALF = torch.zeros(()), torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.bfloat16)


@pytest.mark.parametrize("like", [SINGLE, DOUBLE], ids=["single", "double"])
def test_standard_normal(like):
    z = NoiseSource(1).normal((200_000,), like).numpy()
    n = len(z)
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z.astype(np.float64) ** power).mean() - moment) < 4 * (spread / n) ** 0.5
    assert stats.kstest(z, "norm").pvalue > 0.01


def test_tails_and_symmetry():
    z = NoiseSource(2).normal((1_000_000,), SINGLE)
    assert torch.isfinite(z).all()
    assert not (z == 0).any()
    for bound in (2.0, 3.0, 4.0):
        expected = len(z) * stats.norm.sf(bound)
        for tail in (z > bound, z < -bound):
            assert abs(tail.sum().item() - expected) < 4 * expected**0.5


@pytest.mark.parametrize("length", [1, 2, 3, 1000, 40_001])
def test_rows_do_not_depend_on_how_many_are_drawn(length):
    together = NoiseSource(3).normal((5, length), SINGLE)
    source = NoiseSource(3)
    apart = [source.normal((2, length), SINGLE), source.normal((length,), SINGLE)]
    apart.append(source.normal((1, 2, length), SINGLE)[0])
    assert torch.equal(together, torch.cat([a.view(-1, length) for a in apart]))


def test_rows_and_neighbours_are_independent():
    z = NoiseSource(4).normal((4, 40_000), SINGLE).double()
    correlations = torch.corrcoef(torch.cat([z, z.roll(1, dims=1), z.square()]))
    correlations.fill_diagonal_(0)
    assert correlations.abs().max() < 4.5 / 40_000**0.5


def test_no_block_is_repeated():
    z = NoiseSource(5).normal((100_000,), DOUBLE)
    assert len(z.unique()) == 100_000
    # Of 2^22 equally likely values, this many are expected to occur.
    single = len(NoiseSource(5).normal((100_000,), SINGLE).unique())
    assert single > 0.999 * 2**22 * (1 - np.exp(-100_000 / 2**22))


def test_seeds_differ_and_repeat():
    first = NoiseSource(6).normal((100,), SINGLE)
    assert torch.equal(first, NoiseSource(6).normal((100,), SINGLE))
    assert not torch.isclose(first, NoiseSource(7).normal((100,), SINGLE)).any()


@pytest.mark.parametrize("like", [SINGLE, DOUBLE], ids=["single", "double"])
def test_restore_continues_exactly(like):
    source = NoiseSource(8)
    source.normal((33,), like)
    state = source.state()
    expected = [source.normal((3, 5), like), source.normal((101,), like)]
    other = NoiseSource(9)
    other.normal((7,), like)
    other.restore(state)
    assert torch.equal(other.normal((3, 5), like), expected[0])
    assert torch.equal(other.normal((101,), like), expected[1])
    assert state.dtype == torch.int64


def test_state_is_a_snapshot():
    source = NoiseSource(8)
    state = source.state()
    before = state.clone()
    source.normal((100,), SINGLE)
    assert torch.equal(state, before)
    assert not torch.equal(source.state(), before)


def test_deepcopy_draws_the_same_independently():
    source = NoiseSource(10)
    source.normal((11,), SINGLE)
    twin = copy.deepcopy(source)
    expected = source.normal((20,), SINGLE)
    source.normal((20,), SINGLE)
    assert torch.equal(twin.normal((20,), SINGLE), expected)


def test_half_precision_is_rounded_single():
    half, single = NoiseSource(11).normal((2, 50), HALF), NoiseSource(11).normal((2, 50), SINGLE)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, single.bfloat16())


def test_double_precision_is_no_rounded_single():
    z = NoiseSource(12).normal((1000,), DOUBLE)
    assert z.dtype == torch.float64
    assert (z != z.float().double()).float().mean() > 0.9


def test_derived_seeds():
    seeds = {derive(seed, purpose) for seed in range(20) for purpose in ("weights", "batches", "split")}
    assert len(seeds) == 60
    assert derive(0, "weights") == derive(0, "weights")
    # No run-together of seed and purpose.
    assert derive(1, "1/x") != derive(11, "/x")
    draws = [torch.rand(3, generator=generator(0, p)) for p in ("weights", "batches", "weights")]
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_fresh_seed_follows_the_global_generator():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = fresh_seed(), fresh_seed()
        torch.manual_seed(0)
        assert fresh_seed() == first != second


def test_signs_are_fair_independent_and_resume():
    source = NoiseSource(0)
    like = torch.zeros(1, dtype=torch.float64)
    signs = source.signs((200, 50), like)
    assert signs.dtype == torch.float64
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean().item()) < 4 / 100
    assert (torch.corrcoef(signs.T) - torch.eye(50)).abs().max() < 5 / 200**0.5
    state = source.state()
    after = source.signs((3, 5, 1), like)
    source.restore(state)
    assert torch.equal(source.signs((3, 5, 1), like), after)
