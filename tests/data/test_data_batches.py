from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posterity.core.errors import CorruptFileError, UsageError
from posterity.data import Batches

sizes = st.tuples(st.integers(1, 40), st.integers(1, 45))


def make(num_data, batch_size, seed=0, **options):
    return Batches(num_data, batch_size, torch.Generator().manual_seed(seed), **options)


def steps(batches, count):
    """(epoch, indices) of `count` batches, over as many epochs as it takes."""
    out = []
    while True:
        for index in batches:
            out.append((batches.epoch, index.tolist()))
            if len(out) == count:
                return out


@settings(deadline=None)
@given(sizes, st.integers(0, 2**31))
def test_each_epoch_is_a_permutation(size, seed):
    batches = make(*size, seed)
    for epoch in range(3):
        assert batches.epoch == epoch
        seen = list(batches)
        assert len(seen) == batches.num_batches
        assert sorted(torch.cat(seen).tolist()) == list(range(size[0]))
        assert all(len(index) == size[1] for index in seen[:-1])


@settings(deadline=None)
@given(sizes, st.integers(1, 60), st.integers(0, 60), st.booleans(), st.booleans())
def test_resuming_anywhere_equals_not_stopping(size, done, extra, shuffle, drop_last):
    drop_last = drop_last and size[1] <= size[0]
    options = {"shuffle": shuffle, "drop_last": drop_last}
    whole = steps(make(*size, **options), done + extra + 1)
    first = make(*size, **options)
    assert steps(first, done) == whole[:done]
    second = make(*size, seed=99, **options)
    second.restore(first.state())
    assert steps(second, extra + 1) == whole[done:]


def test_a_state_before_the_first_batch_resumes_too():
    first = make(10, 3)
    second = make(10, 3, seed=5)
    second.restore(first.state())
    assert steps(first, 9) == steps(second, 9)


def test_a_state_after_the_last_batch_ends_its_epoch_first():
    first = make(4, 2)
    loop = iter(first)
    next(loop), next(loop)
    second = make(4, 2)
    second.restore(first.state())
    assert (second.epoch, second.position) == (0, 2)
    assert list(loop) == list(second) == []
    assert (second.epoch, second.position) == (1, 0)


def test_resuming_restores_a_generator_that_others_draw_from():
    shared = torch.Generator().manual_seed(0)
    first = Batches(6, 2, shared)
    next(iter(first))
    torch.rand(3, generator=shared)
    state = first.state()
    other = torch.Generator()
    second = Batches(6, 2, other)
    second.restore(state)
    assert torch.equal(torch.rand(3, generator=shared), torch.rand(3, generator=other))
    assert steps(first, 7) == steps(second, 7)


def test_leaving_a_loop_and_looping_again_goes_on():
    batches, whole = make(7, 2), make(7, 2)
    first = next(iter(batches))
    assert batches.position == 1
    rest = list(batches)
    assert [index.tolist() for index in [first, *rest]] == [index.tolist() for index in whole]


def test_epochs_differ_and_follow_randperm():
    generator = torch.Generator().manual_seed(3)
    batches = make(20, 20, seed=3)
    for _ in range(2):
        assert torch.equal(next(iter(batches)), torch.randperm(20, generator=generator))
        assert list(batches) == []


def test_without_shuffling_the_order_is_that_of_the_data_and_no_randomness_is_used():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    batches = Batches(5, 2, generator, shuffle=False)
    assert [index.tolist() for index in batches] == [[0, 1], [2, 3], [4]]
    assert torch.equal(generator.get_state(), before)


def test_drop_last():
    batches = make(7, 3, drop_last=True)
    assert batches.num_batches == 2
    assert [len(index) for index in batches] == [3, 3]
    assert make(7, 3).num_batches == 3
    assert make(6, 3).num_batches == 2


@pytest.mark.parametrize(
    ("num_data", "batch_size", "drop_last", "message"),
    [
        (0, 3, False, "num_data is 0"),
        (3, 0, False, "batch_size is 0"),
        (3, 4, True, "batch_size 4 exceeds the 3 rows.*drop_last=False"),
    ],
)
def test_wrong_sizes_are_refused(num_data, batch_size, drop_last, message):
    with pytest.raises(UsageError, match=message):
        make(num_data, batch_size, drop_last=drop_last)


def test_a_state_of_other_data_or_a_broken_one_is_refused():
    state = make(7, 3).state()
    with pytest.raises(UsageError, match="taken with batch_size 3, now it is 2"):
        make(7, 2).restore(state)
    with pytest.raises(UsageError, match="taken with num_data 7, now it is 8"):
        make(8, 3).restore(state)
    del state["position"]
    with pytest.raises(CorruptFileError, match="lacks position"):
        make(7, 3).restore(state)
