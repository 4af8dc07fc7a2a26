"""What people give by mistake is told at once, or works."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posterity as pt
from posterity.core.errors import UsageError

X = torch.randn(21, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


@pytest.mark.parametrize("given", ["gaussian", pt.Bernoulli, nn.MSELoss()])
def test_what_is_no_likelihood_is_refused(given):
    with pytest.raises(UsageError, match="likelihood is one of Categorical"):
        pt.bayesian(nn.Linear(3, 2), likelihood=given)
    with pytest.raises(UsageError, match="likelihood is one of Categorical"):
        pt.fit(pt.bayesian(nn.Linear(3, 2)), (X, Y), likelihood=given, standardise=True)


def test_what_is_no_network_is_refused():
    with pytest.raises(UsageError, match=r"make one of the class, Linear\(...\)"):
        pt.bayesian(nn.Linear)
    with pytest.raises(UsageError, match="not 3"):
        pt.bayesian(3)


def ends(*modules):
    return pt.bayesian(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), *modules), seed=0)


@pytest.mark.parametrize(
    ("net", "y", "likelihood"),
    [
        (ends(nn.Linear(4, 2), nn.Softmax(-1)), Y, None),
        (ends(nn.Linear(4, 1), nn.Sigmoid()), Y, pt.Bernoulli()),
        (ends(nn.Linear(4, 2), nn.Sigmoid()), nn.functional.one_hot(Y).float(), pt.MultiLabel()),
    ],
)
def test_probabilities_instead_of_logits_are_warned_of(net, y, likelihood):
    with pytest.warns(UserWarning, match="ends with probabilities"):
        pt.fit(net, (X, y), likelihood=likelihood, epochs=1)


@pytest.mark.parametrize(
    ("net", "y"),
    [
        (ends(nn.Linear(4, 2)), Y),
        (ends(nn.Linear(4, 2), nn.LogSoftmax(-1)), Y),
        (ends(nn.Linear(4, 1), nn.Sigmoid()), X[:, 0]),
    ],
)
def test_others_are_not(net, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pt.fit(net, (X, y), epochs=1)
    assert not any("probabilities" in str(each.message) for each in found)


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y), (np.asarray(X), np.asarray(Y))])
@pytest.mark.parametrize("batch_size", [4, 5, 10, 20])
def test_a_lone_row_is_no_batch_for_a_batch_norm(data, batch_size):
    net = pt.bayesian(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    result = pt.fit(net, data, epochs=2, batch_size=batch_size)
    assert len(result.history) == 2
    assert 21 % batch_size == 1


@pytest.mark.parametrize(("rows", "given", "steps"), [(21, 10, 2), (21, 4, 4), (20, 10, 2), (21, 9, 3), (7, 2, 2)])
def test_batches_grow_by_as_little_as_does(rows, given, steps):
    """21 in tens: 11 and 10. 21 in fours: fives leave one as well, so sixes. Without a lone row they stay."""
    norm = pt.bayesian(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    assert pt.fit(norm, (X[:rows], Y[:rows]), epochs=1, batch_size=given).history[-1]["step"] == steps
