import copy

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.objectives import check_learnable, learn_scale

MODEL = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


@pytest.mark.parametrize("prior", [pt.Gaussian(), pt.Laplace(), pt.Parts({"0.*": pt.Laplace(), "*": pt.Gaussian()})])
@pytest.mark.parametrize("posterior", ["mean_field", "tied", "low_rank"])
def test_a_check_changes_nothing(prior, posterior):
    net = pt.bayesian(MODEL, prior=prior, posterior=posterior)
    before = copy.deepcopy(net.prior.state_dict())
    check_learnable(net.posterior, net.prior)
    assert all(torch.equal(value, before[name]) for name, value in net.prior.state_dict().items())


def test_a_refusal_leaves_all_parts_as_they_are():
    """The first part once had its new scale when the second was found not to be learnable."""
    net = pt.bayesian(MODEL, prior=pt.Parts({"0.*": pt.Laplace(5.0), "*": pt.StudentT()}))
    before = copy.deepcopy(net.prior.state_dict())
    for call in (lambda: check_learnable(net.posterior, net.prior), lambda: learn_scale(net)):
        with pytest.raises(UsageError, match="student_t prior cannot be learnt"):
            call()
    assert all(torch.equal(value, before[name]) for name, value in net.prior.state_dict().items())


def test_a_point_cannot_learn():
    net = pt.bayesian(MODEL, posterior="point")
    with pytest.raises(UsageError, match="shrink to zero"):
        check_learnable(net.posterior, net.prior)
