import math
from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posterity.core.errors import UsageError
from posterity.objectives import kl_weights


def test_limits():
    assert torch.equal(kl_weights(7), torch.ones(7, dtype=torch.float64))
    assert torch.equal(kl_weights(7, 0), torch.zeros(7, dtype=torch.float64))
    assert kl_weights(1, 0.3).tolist() == [1]


def test_by_hand():
    # lam^i = 1/2, 1/4, 1/8 of a sum of 7/8, times 3; and 2, 4, 8 of 14.
    assert kl_weights(3, 0.5).tolist() == pytest.approx([12 / 7, 6 / 7, 3 / 7])
    assert kl_weights(3, 2).tolist() == pytest.approx([3 / 7, 6 / 7, 12 / 7])
    assert kl_weights(2, 3).tolist() == pytest.approx([0.5, 1.5])


@pytest.mark.parametrize("lam", [1e-3, 0.5, 1.0, 2.0, 1e3])
def test_many_batches(lam):
    weights = kl_weights(10_000, lam)
    assert torch.isfinite(weights).all()
    assert (weights >= 0).all()
    assert weights.sum().item() == pytest.approx(10_000)
    # The largest is M (1 - 1/a) / (1 - a^-M) with a = max(lam, 1/lam).
    a = max(lam, 1 / lam)
    assert weights.max().item() == pytest.approx(10_000 * (1 - 1 / a) if a > 1 else 1)


@pytest.mark.parametrize("lam", [1e-3, 0.5, 1 - 1e-9, 1.0, 1 + 1e-4, 2.0, 1e3])
@pytest.mark.parametrize("num_batches", [3, 1000, 10_000])
def test_against_exact_arithmetic(num_batches, lam):
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**6), 10**6
        powers = [Decimal(1)]
        for _ in range(num_batches):
            powers.append(powers[-1] * Decimal(lam))
        whole = sum(powers[1:])
        exact = [num_batches * power / whole for power in powers[1:]]
        expected = torch.tensor([float(value) for value in exact], dtype=torch.float64)  # tiny ones are 0 or subnormal
    torch.testing.assert_close(kl_weights(num_batches, lam), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("lam", [5e-324, 1e-300, 1e300])
def test_extreme_lam_gives_one_batch_all(lam):
    weights = kl_weights(1000, lam)
    assert weights.sum() == weights[-1 if lam > 1 else 0] == 1000


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 300), st.floats(-6, 6).map(math.exp))
def test_sum_ratio_and_mirror(num_batches, lam):
    weights = kl_weights(num_batches, lam)
    assert weights.sum().item() == pytest.approx(num_batches)
    torch.testing.assert_close(weights.flip(0), kl_weights(num_batches, 1 / lam), rtol=1e-9, atol=1e-300)
    large = weights[:-1] > 1e-290
    torch.testing.assert_close(weights[1:][large], weights[:-1][large] * lam, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize(("num_batches", "lam"), [(0, 1.0), (-1, 1.0), (3, -0.1), (3, math.inf), (3, math.nan)])
def test_wrong_values(num_batches, lam):
    with pytest.raises(UsageError):
        kl_weights(num_batches, lam)
