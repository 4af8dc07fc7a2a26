import math

import pytest
import torch
from torch import distributions as td
from torch.nn import functional as F

from posterity.core.errors import UnknownNameError, UsageError
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, build_likelihood
from posterity.likelihoods.gaussian import MIN_SD

G = torch.Generator().manual_seed(0)
LOGITS = 3 * torch.randn(4, 7, 3, generator=G, dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 2, 1, 0, 1])
YES = torch.tensor([0, 1, 1, 0, 0, 1, 1])
TARGETS = torch.randn(7, 3, generator=G, dtype=torch.float64)


def test_categorical():
    ours = Categorical().log_prob(LOGITS, LABELS)
    assert ours.shape == (4, 7)
    torch.testing.assert_close(ours, td.Categorical(logits=LOGITS).log_prob(LABELS))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool])
def test_bernoulli(dtype):
    ours = Bernoulli().log_prob(LOGITS[..., :1], YES.to(dtype))
    torch.testing.assert_close(ours, td.Bernoulli(logits=LOGITS[..., 0]).log_prob(YES.double()))


def test_extreme_logits_stay_finite():
    big = torch.tensor([[[1000.0, -1000.0]]])
    assert Categorical().log_prob(big, torch.tensor([1])).item() == -2000
    assert Categorical().log_prob(big, torch.tensor([0])).item() == 0
    assert Bernoulli().log_prob(big[..., :1], torch.tensor([0])).item() == -1000
    assert torch.isfinite(Categorical().predict(big).total).all()


def test_fixed_noise():
    ours = GaussianNoise(0.3).log_prob(LOGITS, TARGETS)
    torch.testing.assert_close(ours, td.Normal(LOGITS, 0.3).log_prob(TARGETS).sum(-1))


def test_learnt_noise():
    likelihood = GaussianNoise("learnt", num_targets=3).double()
    likelihood.rho.data.copy_(torch.tensor([-1.0, 0.0, 2.0]))
    sd = F.softplus(likelihood.rho)
    ours = likelihood.log_prob(LOGITS, TARGETS)
    torch.testing.assert_close(ours, td.Normal(LOGITS, sd).log_prob(TARGETS).sum(-1))
    gradient = torch.autograd.grad(ours.sum(), likelihood.rho)[0]
    assert torch.autograd.gradcheck(lambda z: likelihood.log_prob(z, TARGETS), LOGITS.clone().requires_grad_())
    # d/ds log N(y; z, s) = ((y - z)^2 / s^2 - 1) / s
    by_hand = ((((TARGETS - LOGITS) / sd).square() - 1) / sd).sum((0, 1)) * likelihood.rho.sigmoid()
    torch.testing.assert_close(gradient, by_hand)


def test_input_noise():
    likelihood = GaussianNoise("input", num_targets=3)
    raw = torch.randn(4, 7, 3, generator=G, dtype=torch.float64)
    ours = likelihood.log_prob(torch.cat([LOGITS, raw], -1), TARGETS)
    expected = td.Normal(LOGITS, F.softplus(raw) + MIN_SD).log_prob(TARGETS).sum(-1)
    torch.testing.assert_close(ours, expected)


def test_nll_is_the_mean_over_samples_and_data():
    likelihood = GaussianNoise(1.0)
    outputs, y = torch.tensor([[[0.0], [2.0]], [[1.0], [1.0]]]), torch.tensor([[0.0], [1.0]])
    squares = (0 + 1 + 1 + 0) / 4
    assert likelihood.nll(outputs, y).item() == pytest.approx(squares / 2 + math.log(2 * math.pi) / 2)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        (Categorical(), (2, 7, 3), (6,)),
        (Categorical(), (2, 7, 3), (7, 1)),
        (Bernoulli(), (2, 7, 2), (7,)),
        (Bernoulli(), (2, 7, 1), (7, 1)),
        (Bernoulli(), (2, 7, 1), (6,)),
        (GaussianNoise(1.0), (2, 7, 1), (7,)),
        (GaussianNoise(1.0), (2, 7, 1), (7, 2)),
        (GaussianNoise(1.0), (2, 7, 2), (7, 1)),
        (GaussianNoise("input"), (2, 7, 4), (7, 4)),
        (GaussianNoise("input", num_targets=2), (2, 7, 3), (7, 2)),
        (GaussianNoise("input"), (2, 7, 1), (7, 1)),
    ],
)
def test_shapes_that_do_not_fit(likelihood, outputs, y):
    with pytest.raises(UsageError):
        likelihood.log_prob(torch.zeros(outputs), torch.zeros(y, dtype=torch.int64))


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, "learned"])
def test_wrong_noise(noise):
    with pytest.raises(UsageError, match="noise"):
        GaussianNoise(noise)


def test_by_name():
    likelihood = build_likelihood("gaussian", noise=0.5, num_targets=2)
    assert (likelihood.noise, likelihood.num_targets) == (0.5, 2)
    with pytest.raises(UnknownNameError, match="Did you mean 'categorical'"):
        build_likelihood("categoric")


def test_number_of_outputs():
    assert Categorical().num_outputs(5) == 5
    assert Bernoulli().num_outputs(2) == 1
    assert [GaussianNoise(n).num_outputs(3) for n in (1.0, "learnt", "input")] == [3, 3, 6]
