import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from posterity.core.errors import UsageError
from posterity.metrics import accuracy, brier, confidence, entropy, expected_nll, nll

PROBS = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0])


def random_probs(seed: int, n: int = 40, classes: int = 4, samples: int | None = None):
    generator = torch.Generator().manual_seed(seed)
    shape = (n, classes) if samples is None else (samples, n, classes)
    logits = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(classes, (n,), generator=generator)


def test_by_hand():
    assert accuracy(PROBS, Y) == pytest.approx(2 / 3)
    assert nll(PROBS, Y) == pytest.approx(-(math.log(0.7) + math.log(0.3) + math.log(0.5)) / 3)
    # (0.09 + 0.04 + 0.01), (0.01 + 0.49 + 0.36), (0.25 + 0.16 + 0.01)
    assert brier(PROBS, Y) == pytest.approx((0.14 + 0.86 + 0.42) / 3)
    assert confidence(PROBS) == pytest.approx((0.7 + 0.6 + 0.5) / 3)
    row = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert entropy(PROBS)[0].item() == pytest.approx(row)


def test_expected_nll_by_hand():
    log_probs = torch.tensor([[[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.9, 0.1]]]).log()
    by_hand = -(math.log(0.8) + math.log(0.5) + math.log(0.4) + math.log(0.1)) / 4
    assert expected_nll(log_probs, torch.tensor([0, 1])) == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_uniform_limit(classes):
    probs, y = torch.full((5, classes), 1 / classes, dtype=torch.float64), torch.arange(5) % classes
    assert nll(probs, y) == pytest.approx(math.log(classes))
    assert brier(probs, y) == pytest.approx(1 - 1 / classes)
    assert confidence(probs) == pytest.approx(1 / classes)
    torch.testing.assert_close(entropy(probs), torch.full((5,), math.log(classes), dtype=torch.float64))


def test_one_hot_limits():
    y = torch.tensor([2, 0, 1])
    right = torch.eye(3)[y]
    assert (accuracy(right, y), nll(right, y), brier(right, y), confidence(right)) == (1, 0, 0, 1)
    assert torch.equal(entropy(right), torch.zeros(3))
    wrong = torch.eye(3)[(y + 1) % 3]
    assert (accuracy(wrong, y), brier(wrong, y)) == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_nll_of_probability_zero_is_finite_and_floored_at_tiny(dtype):
    probs = torch.tensor([[1.0, 0.0]], dtype=dtype)
    assert nll(probs, torch.tensor([1])) == pytest.approx(-math.log(torch.finfo(dtype).tiny))


def test_expected_nll_is_not_floored():
    assert expected_nll(torch.tensor([[[0.0, -torch.inf]]]), torch.tensor([1])) == math.inf


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(seed):
    probs, y = random_probs(seed)
    p, t, labels = probs.numpy(), y.numpy(), np.arange(4)
    assert accuracy(probs, y) == pytest.approx(accuracy_score(t, p.argmax(1)))
    assert nll(probs, y) == pytest.approx(log_loss(t, p, labels=labels))
    # Ours is the sum of scikit-learn's binary scores, each class against the rest.
    assert brier(probs, y) == pytest.approx(sum(brier_score_loss(t == c, p[:, c]) for c in labels))


@pytest.mark.parametrize("seed", range(5))
def test_entropy_agrees_with_torch_distributions(seed):
    probs, _ = random_probs(seed)
    torch.testing.assert_close(entropy(probs), torch.distributions.Categorical(probs).entropy())
    assert entropy(probs.float()).dtype == torch.float32


def test_float32_accumulates_in_float64():
    # Each term is 0.1 of float32; a float32 running sum of a million of them drifts in the 4th digit.
    probs = torch.tensor([[0.1, 0.9]]).expand(1_000_000, 2)
    assert confidence(probs) == pytest.approx(float(torch.tensor(0.9)), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), samples=st.integers(1, 6))
def test_predictive_nll_is_below_the_expected_nll(seed, samples):
    probs, y = random_probs(seed, n=7, samples=samples)
    predictive, expected = nll(probs.mean(0), y), expected_nll(probs.log(), y)
    assert predictive <= expected + 1e-12
    if samples == 1:
        assert predictive == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_bounds_and_permutation_invariance(seed):
    probs, y = random_probs(seed, n=9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    for metric in (accuracy, nll, brier):
        assert metric(probs, y) == pytest.approx(metric(probs[order], y[order]))
    assert 0 <= accuracy(probs, y) <= 1
    assert 0 <= brier(probs, y) <= 2
    assert 0.25 <= confidence(probs) <= 1
    assert (entropy(probs) >= 0).all()
    assert (entropy(probs) <= math.log(4) + 1e-12).all()


def test_gradients_are_neither_needed_nor_kept():
    probs = PROBS.clone().requires_grad_()
    assert isinstance(nll(probs, Y), float)
    assert not entropy(probs).requires_grad


def test_rounding_above_one_is_forgiven():
    probs = torch.tensor([[1.0 + 2e-7, 0.0]])
    assert nll(probs, torch.tensor([0])) == 0
    assert confidence(probs) == 1


@pytest.mark.parametrize(
    ("probs", "y", "message"),
    [
        (torch.tensor([[1.7, -0.7]]), [0], r"probs\[0, 0\] is 1\.7.*softmax"),
        (torch.tensor([[0.5, 0.5], [torch.nan, 1.0]]), [0, 0], r"probs\[1, 0\] is nan"),
        (torch.tensor([[0.5, 0.1]]), [0], r"probs\.sum\(1\)\[0\] is 0\.6"),
        (torch.tensor([0.5, 0.5]), [0], r"probs has shape \(2,\), expected \(n, K\)"),
        (torch.empty(0, 3), [], r"shape \(0, 3\).*not empty"),
        (torch.tensor([[1, 0]]), [0], r"floating point, not torch\.int64"),
        (torch.tensor([[0.5], [0.2]]), [0, 0], r"shape \(2, 1\).*torch\.stack"),
        (torch.tensor([[0.5, 0.5]]), [2], r"y\[0\] is 2, expected a label in 0\.\.1"),
        (torch.tensor([[0.5, 0.5]]), [-1], r"y\[0\] is -1"),
        (torch.tensor([[0.5, 0.5]]), [0, 1], r"y has shape \(2,\), expected \(1,\)"),
        (torch.tensor([[0.5, 0.5]]), [0.0], r"integer class labels, not torch\.float32"),
    ],
)
def test_wrong_inputs_are_refused_by_name_and_value(probs, y, message):
    for metric in (accuracy, nll, brier):
        with pytest.raises(UsageError, match=message):
            metric(probs, torch.tensor(y))


@pytest.mark.parametrize(
    ("log_probs", "message"),
    [
        (torch.zeros(3, 2), r"log_probs has shape \(3, 2\), expected \(S, n, K\)"),
        (torch.tensor([[[0.7, -1.0]]]), r"log_probs\[0, 0, 0\] is 0\.69.*log_softmax"),
        (torch.tensor([[[torch.nan, -1.0]]]), r"log_probs\[0, 0, 0\] is nan"),
        (torch.zeros(1, 1, 2, dtype=torch.int64), r"floating point"),
    ],
)
def test_wrong_log_probs_are_refused(log_probs, message):
    with pytest.raises(UsageError, match=message):
        expected_nll(log_probs, torch.tensor([0]))
