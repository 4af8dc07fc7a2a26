import numpy as np
import pytest
import torch

from posterity.averaging import RunningMean, RunningMoments


def snapshots(count=50, n=100, sd=1.0, mean=1.0, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return [(mean + sd * torch.randn(n, generator=g, dtype=torch.float64)).to(dtype) for _ in range(count)]


@pytest.mark.parametrize("sd", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_textbook(sd, dtype):
    """Also where the variance is 1e-8 of the mean's square."""
    kept = snapshots(sd=sd, dtype=dtype)
    moments, mean = RunningMoments(), RunningMean()
    for snapshot in kept:
        moments.add(snapshot)
        mean.add(snapshot)
    stored = np.stack([s.numpy() for s in kept]).astype(np.longdouble)
    np.testing.assert_allclose(moments.mean.numpy(), stored.mean(0).astype(float), rtol=1e-12)
    np.testing.assert_allclose(moments.variance.numpy(), stored.var(0).astype(float), rtol=1e-6)
    assert torch.equal(moments.mean, mean.mean)
    assert moments.count == 50


def test_by_hand():
    moments = RunningMoments()
    for value in (1.0, 3.0, 8.0):
        moments.add(torch.tensor([value]))
    assert moments.mean.item() == pytest.approx(4)
    assert moments.variance.item() == pytest.approx((9 + 1 + 16) / 3)


def test_equals_second_moment_minus_square():
    """Source 003's eq. 4, with the second moment kept apart from the variance."""
    moments, mean, second = RunningMoments(), torch.zeros(100).double(), torch.zeros(100).double()
    for n, snapshot in enumerate(snapshots(dtype=torch.float64)):
        moments.add(snapshot)
        mean = (n * mean + snapshot) / (n + 1)
        second = (n * second + snapshot**2) / (n + 1)
        torch.testing.assert_close(moments.mean, mean)
        torch.testing.assert_close(moments.variance, second - mean**2)


def test_one_value_and_equal_values_have_no_variance():
    moments = RunningMoments()
    value = torch.tensor([0.1, 1e20, -3.0])
    for _ in range(7):
        moments.add(value)
        assert torch.equal(moments.mean, value.double())
        assert torch.equal(moments.variance, torch.zeros(3).double())


def test_restored_goes_on_to_the_same_bits():
    whole, first, second = RunningMoments(), RunningMoments(), RunningMoments()
    kept = snapshots(10)
    for snapshot in kept:
        whole.add(snapshot)
    for snapshot in kept[:4]:
        first.add(snapshot)
    state = first.state()
    second.restore(state)
    for snapshot in kept[4:]:
        second.add(snapshot)
    assert torch.equal(second.mean, whole.mean)
    assert torch.equal(second.variance, whole.variance)
    assert state["count"] == 4
    assert torch.equal(first.mean, state["mean"])  # restoring copies
