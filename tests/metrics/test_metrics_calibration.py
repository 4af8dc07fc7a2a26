import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.classification import multiclass_calibration_error

from posterity.core.errors import UsageError
from posterity.metrics import accuracy, adaptive_ece, confidence, ece, reliability


def two_class(confidences, correct, dtype=torch.float64):
    """Predictions of class 0 with the given confidences, right where `correct` is 1."""
    p = torch.tensor(confidences, dtype=dtype)
    return torch.stack([p, 1 - p], dim=1), 1 - torch.tensor(correct)


def random_case(seed, n=200, classes=4):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return probs, torch.randint(classes, (n,), generator=generator)


def test_ece_by_hand():
    # Bins of width 0.1: (0.5, 0.6] holds 0.55 and 0.6, (0.9, 1] holds 0.95 and 1.
    probs, y = two_class([0.55, 0.6, 0.95, 1.0], [1, 0, 1, 1])
    assert ece(probs, y, bins=10) == pytest.approx(0.5 * abs(0.5 - 0.575) + 0.5 * abs(1 - 0.975))


def test_adaptive_ece_by_hand():
    # Five data in two bins: ranks 1..ceil(5/2) = 3, then 4 and 5.
    probs, y = two_class([0.9, 0.6, 0.8, 0.7, 1.0], [1, 1, 0, 1, 0])
    low, high = abs(2 / 3 - (0.6 + 0.7 + 0.8) / 3), abs(0.5 - 0.95)
    assert adaptive_ece(probs, y, bins=2) == pytest.approx(0.6 * low + 0.4 * high)


def test_reliability_by_hand():
    probs, y = two_class([0.55, 0.6, 0.95, 1.0], [1, 0, 1, 1])
    table = reliability(probs, y, bins=5)
    torch.testing.assert_close(table.edges, torch.tensor([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], dtype=torch.float64))
    assert table.counts.tolist() == [0, 0, 2, 0, 2]
    torch.testing.assert_close(table.accuracy[[2, 4]], torch.tensor([0.5, 1.0], dtype=torch.float64))
    torch.testing.assert_close(table.confidence[[2, 4]], torch.tensor([0.575, 0.975], dtype=torch.float64))
    assert table.accuracy[[0, 1, 3]].isnan().all()
    assert table.confidence[[0, 1, 3]].isnan().all()
    assert table.ece == ece(probs, y, bins=5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("edge", range(8, 16))
def test_bins_are_right_closed_in_every_dtype(edge, dtype):
    probs, y = two_class([edge / 15], [1], dtype)
    assert reliability(probs, y).counts.tolist().index(1) == edge - 1


@pytest.mark.parametrize("seed", range(4))
def test_one_bin_is_the_gap_of_the_means(seed):
    probs, y = random_case(seed)
    gap = abs(accuracy(probs, y) - confidence(probs))
    assert ece(probs, y, bins=1) == pytest.approx(gap)
    assert adaptive_ece(probs, y, bins=1) == pytest.approx(gap)


@pytest.mark.parametrize("seed", range(4))
def test_as_many_equal_mass_bins_as_data_is_the_mean_absolute_gap(seed):
    probs, y = random_case(seed, n=30)
    top, predicted = probs.max(1)
    gap = ((predicted == y).double() - top).abs().mean().item()
    for bins in (30, 60):  # more bins than data leaves some empty
        assert adaptive_ece(probs, y, bins=bins) == pytest.approx(gap)


def test_certainty_limits():
    y = torch.tensor([0, 2, 1])
    for metric in (ece, adaptive_ece):
        assert metric(torch.eye(3)[y], y) == 0
        assert metric(torch.eye(3)[(y + 1) % 3], y) == 1


def test_calibrated_predictions_have_little_error():
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(50_000, 5, generator=generator, dtype=torch.float64).softmax(1)
    y = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    assert ece(probs, y) < 0.01
    assert adaptive_ece(probs, y) < 0.01
    assert ece((3 * probs.log()).softmax(1), y) > 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bins", [5, 10, 15])
def test_ece_agrees_with_torchmetrics_off_the_edges(seed, bins):
    # torchmetrics closes its bins on the left, [lo, hi), and gives a confidence of exactly 1 a bin of its
    # own. Random confidences never meet an edge, where the two conventions are one.
    probs, y = random_case(seed)
    theirs = multiclass_calibration_error(probs, y, num_classes=4, n_bins=bins, norm="l1")
    assert ece(probs, y, bins=bins) == pytest.approx(theirs.item(), abs=1e-6)


def test_ece_differs_from_torchmetrics_on_an_edge():
    # 0.75 is an edge of 4 bins: (0.5, 0.75] here, [0.75, 1) there. Here it joins 0.625, there 0.875.
    probs, y = two_class([0.625, 0.75, 0.875], [0, 1, 0])
    assert ece(probs, y, bins=4) == pytest.approx((abs(1 - 1.375) + abs(0 - 0.875)) / 3)
    theirs = multiclass_calibration_error(probs, y, num_classes=2, n_bins=4, norm="l1")
    assert theirs.item() == pytest.approx((abs(0 - 0.625) + abs(1 - 1.625)) / 3)


def test_ece_differs_from_torchmetrics_at_confidence_one():
    # Here 1 shares the last bin with 0.9, and gaps of opposite sign partly cancel; there it is alone.
    probs, y = two_class([0.9, 1.0], [1, 0])
    assert ece(probs, y, bins=2) == pytest.approx(abs(0.5 - 0.95))
    theirs = multiclass_calibration_error(probs, y, num_classes=2, n_bins=2, norm="l1")
    assert theirs.item() == pytest.approx((0.1 + 1) / 2)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2)), min_size=1),
    bins=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_bounds_and_permutation_invariance_with_ties(rows, bins, seed):
    weights = torch.tensor([row[:3] for row in rows], dtype=torch.float64)
    probs, y = weights / weights.sum(1, keepdim=True), torch.tensor([row[3] for row in rows])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    for metric in (ece, adaptive_ece):
        value = metric(probs, y, bins=bins)
        assert 0 <= value <= 1
        assert value == pytest.approx(metric(probs[order], y[order], bins=bins))
        # Triangle inequality: binning never hides more than the whole.
        assert value >= abs(accuracy(probs, y) - confidence(probs)) - 1e-12
    table = reliability(probs, y, bins=bins)
    assert table.counts.sum() == len(rows)
    filled = table.counts > 0
    assert (table.confidence[filled] <= table.edges[1:][filled] + 1e-12).all()
    assert (table.confidence[filled] > table.edges[:-1][filled] - 1e-12).all()


def test_reliability_is_frozen():
    table = reliability(*two_class([0.6], [1]))
    with pytest.raises(AttributeError):
        table.counts = table.counts + 1  # type: ignore[misc]
    assert math.isfinite(table.ece)


@pytest.mark.parametrize("bins", [0, -1, 1.5, True])
@pytest.mark.parametrize("metric", [ece, adaptive_ece, reliability])
def test_wrong_bins_are_refused(metric, bins):
    with pytest.raises(UsageError, match=f"bins is {bins}"):
        metric(*two_class([0.6], [1]), bins=bins)


@pytest.mark.parametrize("metric", [ece, adaptive_ece, reliability])
def test_wrong_inputs_are_refused(metric):
    with pytest.raises(UsageError, match="probability in"):
        metric(torch.tensor([[3.0, -2.0]]), torch.tensor([0]))
    with pytest.raises(UsageError, match=r"y\[0\] is 5"):
        metric(torch.tensor([[0.5, 0.5]]), torch.tensor([5]))
