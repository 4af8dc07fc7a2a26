"""Empirical Bayes: no other scale of the prior has a smaller KL; what cannot be learnt is refused and left alone."""

import copy

import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.objectives import check_learnable, kl_divergence, learn_scale


@pytest.mark.parametrize("prior", [pt.Gaussian(), pt.Laplace(), pt.Parts({"0.*": pt.Laplace(), "*": pt.Gaussian()})])
@pytest.mark.parametrize("posterior", ["mean_field", "tied", "low_rank"])
def test_a_check_changes_nothing(network, prior, posterior):
    net = network(prior=prior, posterior=posterior)
    before = copy.deepcopy(net.prior.state_dict())
    check_learnable(net.posterior, net.prior)
    assert all(torch.equal(value, before[name]) for name, value in net.prior.state_dict().items())


def test_a_refusal_leaves_all_parts_as_they_are(network):
    """The first part once had its new scale when the second was found not to be learnable."""
    net = network(prior=pt.Parts({"0.*": pt.Laplace(5.0), "*": pt.StudentT()}))
    before = copy.deepcopy(net.prior.state_dict())
    for call in (lambda: check_learnable(net.posterior, net.prior), lambda: learn_scale(net)):
        with pytest.raises(UsageError, match="student_t prior cannot be learnt"):
            call()
    assert all(torch.equal(value, before[name]) for name, value in net.prior.state_dict().items())


@pytest.mark.parametrize(
    "rule",
    [
        pt.Gaussian(0.3),
        pt.Gaussian(0.3, mean="pretrained"),
        pt.Laplace(0.3),
        pt.Laplace(0.3, mean=0.5),
        pt.Parts({"0.*": pt.Laplace(0.1), "*": pt.Gaussian(0.3)}),
    ],
)
def test_learnt_scale_minimises_the_kl(network, rule):
    """No other scale of any one weight tensor does better, by grid search; and the slope there is zero."""
    net = network(8, width=3, dtype=torch.float64, prior=rule)
    with torch.no_grad():
        net.posterior.mean.add_(0.3 * torch.randn(net.num_weights))
        net.posterior.rho.add_(torch.randn(net.num_weights))
    before = kl_divergence(net.posterior, net.prior)
    learn_scale(net)
    best = kl_divergence(net.posterior, net.prior).item()
    assert best < before
    kept = {k: v.clone() for k, v in net.prior.state_dict().items()}
    for name, buffer in net.prior.named_buffers():
        if "centre" in name:
            continue
        for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
            for value in buffer.unique():
                buffer[kept[name] == value] *= factor
                assert kl_divergence(net.posterior, net.prior).item() > best
                net.prior.load_state_dict(kept)


def test_what_cannot_be_learnt(network):
    with pytest.raises(UsageError, match="mixture prior cannot be learnt"):
        learn_scale(network(prior=pt.ScaleMixture()))
    with pytest.raises(UsageError, match="shrink to zero"):
        learn_scale(network(posterior="point"))
    net = network(posterior="point")
    with pytest.raises(UsageError, match="shrink to zero"):
        check_learnable(net.posterior, net.prior)
