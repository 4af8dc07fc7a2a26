"""What every likelihood must do."""

import pytest
import torch

from posterity.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Categorical,
    GaussianNoise,
    MultiLabel,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentTNoise,
    build_likelihood,
)

S, N = 4, 6
G = torch.Generator().manual_seed(0)
REALS = torch.randn(N, 2, generator=G, dtype=torch.float64)
LABELS, YES = torch.arange(N) % 3, torch.arange(N) % 2
COUNTS = torch.arange(2 * N).view(N, 2) % 5
# likelihood, number of classes or target columns, targets
CASES = {
    "categorical": (Categorical(), 3, LABELS),
    "bernoulli": (Bernoulli(), 2, YES),
    "fixed": (GaussianNoise(0.3, num_targets=2), 2, REALS),
    "learnt": (GaussianNoise("learnt", num_targets=2), 2, REALS),
    "input": (GaussianNoise("input", num_targets=2), 2, REALS),
    "poisson": (Poisson(), 2, COUNTS),
    "negative binomial": (NegativeBinomial(0.7, num_targets=2), 2, COUNTS),
    "learnt dispersion": (NegativeBinomial(num_targets=2), 2, COUNTS),
    "ordinal": (Ordinal(3), 3, LABELS),
    "fixed cuts": (Ordinal(3, cuts=[-0.5, 1.5]), 3, LABELS),
    "labels": (MultiLabel(), 3, COUNTS[:, [0, 1, 1]] % 2),
    "student": (StudentTNoise(3.0, scale=0.5, num_targets=2), 2, REALS),
    "learnt scale": (StudentTNoise(num_targets=2), 2, REALS),
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
        kinds = 2 if name == "bernoulli" else 3
        mass = sum(likelihood.log_prob(outputs, torch.full((N,), k)).exp() for k in range(kinds))
    elif not y.is_floating_point():
        most = 2 if name == "labels" else 150
        whole = [torch.arange(most)] * 2 + [torch.arange(2)] * (outputs.shape[-1] - 2)
        plane = torch.cartesian_prod(*whole)
        here = outputs[:1, :1].clamp(max=1).expand(1, len(plane), -1)
        mass = likelihood.log_prob(here, plane).exp().sum()
    elif isinstance(likelihood, StudentTNoise):
        line = torch.linspace(-200, 200, 4001, dtype=torch.float64).unsqueeze(1)
        one = build_likelihood("student_t_noise", df=likelihood.df, scale=0.5)
        mass = one.log_prob(torch.zeros(1, len(line), 1, dtype=torch.float64), line).exp().sum() * 0.1
        torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-4, atol=0)
        return
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
def test_log_prob_of_the_predictive_is_that_of_the_mixture(name):
    likelihood, outputs, y = case(name)
    logs, p = likelihood.log_prob(outputs, y).detach(), likelihood.predict(outputs)
    torch.testing.assert_close(p.log_prob(y), logs.exp().mean(0).log())
    torch.testing.assert_close(p.expected_log_prob(y), logs.mean(0))
    assert isinstance(repr(p), str)
    assert len(p[2:5]) == 3
    assert set(p.to_dict()) == {"kind", *p.columns()}


@EVERY
def test_a_weight_of_two_is_the_datum_twice(name):
    likelihood, outputs, y = case(name)
    outputs.requires_grad_()
    weight = torch.tensor([2.0, 1.0, 1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    rows = torch.tensor([0, 0, 1, 2, 4, 5])
    weighted, repeated = likelihood.nll(outputs, y, weight), likelihood.nll(outputs[:, rows], y[rows])
    torch.testing.assert_close(weighted, repeated)
    wanted = [outputs, *likelihood.parameters()]
    for a, b in zip(*(torch.autograd.grad(each, wanted) for each in (weighted, repeated)), strict=True):
        torch.testing.assert_close(a, b)


@EVERY
def test_built_again_from_its_options(name):
    likelihood, outputs, y = case(name)
    again = build_likelihood(likelihood.kind, **likelihood.options()).double()
    again.load_state_dict(likelihood.state_dict())
    assert torch.equal(again.log_prob(outputs, y), likelihood.log_prob(outputs, y))
