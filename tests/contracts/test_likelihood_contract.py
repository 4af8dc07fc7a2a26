"""What every likelihood must do."""

import pytest
import torch

from posterity.likelihoods import LIKELIHOODS, Bernoulli, Categorical, GaussianNoise, build_likelihood

S, N = 4, 6
G = torch.Generator().manual_seed(0)
REALS = torch.randn(N, 2, generator=G, dtype=torch.float64)
LABELS, YES = torch.arange(N) % 3, torch.arange(N) % 2
# likelihood, number of classes or target columns, targets
CASES = {
    "categorical": (Categorical(), 3, LABELS),
    "bernoulli": (Bernoulli(), 2, YES),
    "fixed": (GaussianNoise(0.3, num_targets=2), 2, REALS),
    "learnt": (GaussianNoise("learnt", num_targets=2), 2, REALS),
    "input": (GaussianNoise("input", num_targets=2), 2, REALS),
}
EVERY = pytest.mark.parametrize("name", CASES)


def case(name):
    likelihood, targets, y = CASES[name]
    g = torch.Generator().manual_seed(1)
    shape = (S, N, likelihood.num_outputs(targets))
    return likelihood.double(), torch.randn(shape, generator=g, dtype=torch.float64), y


def test_all_kinds_are_here():
    assert {likelihood.kind for likelihood, *_ in CASES.values()} == set(LIKELIHOODS)


@EVERY
def test_shapes_and_mean(name):
    likelihood, outputs, y = case(name)
    logs = likelihood.log_prob(outputs, y)
    assert logs.shape == (S, N)
    torch.testing.assert_close(likelihood.nll(outputs, y), -logs.mean())


@EVERY
def test_samples_and_rows_are_independent(name):
    likelihood, outputs, y = case(name)
    logs = likelihood.log_prob(outputs, y)
    torch.testing.assert_close(likelihood.log_prob(outputs[1:2], y), logs[1:2])
    torch.testing.assert_close(likelihood.log_prob(outputs[:, 2:5], y[2:5]), logs[:, 2:5])


@EVERY
def test_gradient(name):
    likelihood, outputs, y = case(name)
    assert torch.autograd.gradcheck(lambda z: likelihood.nll(z, y), outputs.requires_grad_())
    loss = likelihood.nll(outputs, y)
    for parameter in likelihood.parameters():
        assert (torch.autograd.grad(loss, parameter, retain_graph=True)[0] != 0).all()


@EVERY
def test_sums_to_one_over_the_targets(name):
    likelihood, outputs, y = case(name)
    if y.dim() == 1:
        kinds = outputs.shape[-1] if name == "categorical" else 2
        mass = sum(likelihood.log_prob(outputs, torch.full((N,), k)).exp() for k in range(kinds))
    else:
        mean, sd = likelihood.moments(outputs)
        line = torch.linspace(-8, 8, 81, dtype=torch.float64)
        plane = mean[0, :1] + sd[0, :1] * torch.cartesian_prod(line, line)  # around one row and one sample
        here = outputs[:1, :1].expand(1, len(plane), -1)
        mass = likelihood.log_prob(here, plane).exp().sum() * 0.2**2 * sd[0, 0].prod()
    torch.testing.assert_close(mass, torch.ones_like(mass))


@EVERY
def test_prediction(name):
    likelihood, outputs, _ = case(name)
    p = likelihood.predict(outputs)
    assert len(p) == N
    assert p.samples.shape[:2] == (S, N)
    torch.testing.assert_close(p.mean, p.samples.mean(0))
    torch.testing.assert_close(p.total, p.aleatoric + p.epistemic)
    assert (p.epistemic >= 0).all()
    assert (p.aleatoric >= 0).all()
    single = likelihood.predict(outputs[:1])
    torch.testing.assert_close(single.epistemic, torch.zeros_like(single.epistemic))


@EVERY
def test_built_again_from_its_options(name):
    likelihood, outputs, y = case(name)
    again = build_likelihood(likelihood.kind, **likelihood.options()).double()
    again.load_state_dict(likelihood.state_dict())
    assert torch.equal(again.log_prob(outputs, y), likelihood.log_prob(outputs, y))
