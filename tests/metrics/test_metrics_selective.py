import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posterity.core.errors import UsageError
from posterity.metrics import aurc, risk_coverage

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=40)


def test_by_hand():
    coverage, risk = risk_coverage(torch.tensor([0.9, 0.1, 0.5, 0.3]), torch.tensor([1, 0, 0, 1]))
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    torch.testing.assert_close(risk, torch.tensor([0, 1 / 2, 1 / 3, 1 / 2], dtype=torch.float64))
    assert aurc(torch.tensor([0.9, 0.1, 0.5, 0.3]), torch.tensor([1, 0, 0, 1])) == pytest.approx(
        (1 / 2 + 1 / 3 + 1 / 2) / 4
    )


def test_limits():
    errors = torch.tensor([True, False, False, True, False])
    _, risk = risk_coverage(torch.zeros(5), errors)
    torch.testing.assert_close(risk, torch.full((5,), 0.4, dtype=torch.float64))
    assert aurc(torch.zeros(5), errors) == pytest.approx(0.4)
    assert aurc(torch.rand(5), torch.zeros(5)) == 0
    assert aurc(torch.rand(5), torch.ones(5)) == 1


def test_ties_give_the_mean_over_all_orders():
    uncertainty, errors = [0.1, 0.4, 0.4, 0.4, 0.8], [0, 1, 0, 1, 1]
    areas = []
    for middle in itertools.permutations(range(1, 4)):
        ordered = torch.tensor([errors[i] for i in (0, *middle, 4)], dtype=torch.float64)
        areas.append((ordered.cumsum(0) / torch.arange(1, 6)).mean().item())
    assert aurc(torch.tensor(uncertainty), torch.tensor(errors)) == pytest.approx(sum(areas) / len(areas))


@settings(max_examples=60, deadline=None)
@given(data=pairs, seed=st.integers(0, 1000))
def test_laws(data, seed):
    uncertainty, errors = torch.tensor(data, dtype=torch.float64).T
    coverage, risk = risk_coverage(uncertainty, errors)
    assert coverage[-1] == 1
    assert risk[-1].item() == pytest.approx(errors.mean().item())
    assert ((risk >= -1e-12) & (risk <= 1 + 1e-12)).all()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(risk_coverage(uncertainty[order], errors[order]), (coverage, risk))
    # The errors themselves are the best uncertainty, their opposite the worst.
    assert aurc(errors, errors) - 1e-12 <= aurc(uncertainty, errors) <= aurc(-errors, errors) + 1e-12


def test_any_loss_will_do():
    _, risk = risk_coverage(torch.tensor([2.0, 1.0]), torch.tensor([5.0, 3.0]))
    assert risk.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("uncertainty", "errors", "message"),
    [
        (torch.ones(3), torch.ones(2), "errors has 2 entries, expected 3"),
        (torch.tensor([torch.nan]), torch.ones(1), r"uncertainty\[0\] is nan"),
        (torch.ones(1), torch.tensor([torch.nan]), r"errors\[0\] is nan"),
        (torch.ones(0), torch.ones(0), "not empty"),
        (torch.ones(2, 2), torch.ones(2), r"uncertainty has shape \(2, 2\)"),
    ],
)
def test_wrong_inputs_are_refused(uncertainty, errors, message):
    with pytest.raises(UsageError, match=message):
        aurc(uncertainty, errors)
