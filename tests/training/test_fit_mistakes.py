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


class HiddenSigmoid(nn.Module):
    """It is registered last, and not the last that is applied."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.between = nn.Linear(3, 4), nn.Linear(4, 1), nn.Sigmoid()

    def forward(self, x):
        return self.second(self.between(self.first(x)))


@pytest.mark.parametrize(
    ("net", "y"),
    [
        (pt.bayesian(HiddenSigmoid(), likelihood=pt.Bernoulli()), Y),
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


def normed(kind):
    """Networks with batch norms: of rows, of maps of one pixel, of sequences (which have a spread in one row, too)."""
    torch.manual_seed(0)
    model = {
        "rows": [nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)],
        "pixels": [nn.Unflatten(1, (3, 1, 1)), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2)],
        "sequences": [nn.Unflatten(1, (1, 3)), nn.BatchNorm1d(1), nn.Flatten(), nn.Linear(3, 2)],
        "none": [nn.Linear(3, 2)],
    }[kind]
    return pt.bayesian(nn.Sequential(*model), seed=0)


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y), (np.asarray(X), np.asarray(Y))])
@pytest.mark.parametrize(("kind", "batch_size"), [("rows", 4), ("rows", 5), ("rows", 10), ("rows", 20), ("pixels", 20)])
def test_a_lone_row_is_no_batch_for_a_batch_norm(data, kind, batch_size):
    with pytest.warns(UserWarning, match="would leave one of 21 rows over"):
        result = pt.fit(normed(kind), data, epochs=2, batch_size=batch_size)
    assert len(result.history) == 2
    assert 21 % batch_size == 1


def test_no_options_no_words():
    x = torch.cat([X] * 5)[:101]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = pt.fit(normed("rows"), (x, (x[:, 0] > 0).long()), epochs=1)
    assert result.history[-1]["step"] == 1
    assert not any("rows over" in str(each.message) for each in found)


@pytest.mark.parametrize(
    ("kind", "rows", "given", "steps"),
    [
        ("rows", 21, 10, 2),  # 11 and 10
        ("rows", 21, 4, 4),  # fives leave one as well: sixes
        ("rows", 7, 2, 2),  # threes leave one as well
        ("rows", 21, 9, 3),  # none is left over
        ("rows", 20, 10, 2),
        ("sequences", 21, 10, 3),  # a lone row is taken
        ("none", 21, 10, 3),
    ],
)
@pytest.mark.filterwarnings("ignore:batches of")
def test_batches_grow_by_as_little_as_does(kind, rows, given, steps):
    assert pt.fit(normed(kind), (X[:rows], Y[:rows]), epochs=1, batch_size=given).history[-1]["step"] == steps


def test_trying_one_row_changes_nothing():
    net = normed("rows")
    before, state = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    assert not net.takes_one_row(X[:1])
    assert net.takes_one_row(X[:2])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training
