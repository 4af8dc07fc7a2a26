import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as td

from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Prediction
from posterity.likelihoods.categorical import entropy

G = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(5, 4, 3, generator=G, dtype=torch.float64)


def test_entropy_by_hand():
    probs = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    expected = [math.log(2), 0, 0.25 * math.log(4) + 0.75 * math.log(4 / 3)]
    assert entropy(probs).tolist() == pytest.approx(expected)


def test_classes_decompose():
    p = Categorical().predict(LOGITS)
    probs = LOGITS.softmax(-1)
    torch.testing.assert_close(p.mean, probs.mean(0))
    torch.testing.assert_close(p.total, td.Categorical(probs=probs.mean(0)).entropy())
    torch.testing.assert_close(p.aleatoric, td.Categorical(logits=LOGITS).entropy().mean(0))
    # Mutual information = mean KL from each sample's distribution to the mean one.
    each, both = td.Categorical(probs=probs), td.Categorical(probs=probs.mean(0).expand_as(probs))
    torch.testing.assert_close(p.epistemic, td.kl_divergence(each, both).mean(0))
    torch.testing.assert_close(p.confidence, probs.mean(0).max(-1).values)
    assert torch.equal(p.label, probs.mean(0).argmax(-1))
    assert torch.equal(p.samples, probs)
    assert len(p) == 4


def test_certain_samples_that_disagree_are_all_epistemic():
    p = Categorical().predict(torch.tensor([[[50.0, 0.0]], [[0.0, 50.0]]]))
    assert p.epistemic.item() == pytest.approx(math.log(2))
    assert p.aleatoric.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), GaussianNoise(0.5), GaussianNoise("input")])
def test_identical_samples_have_no_epistemic_part(likelihood):
    outputs = LOGITS[:1, :, :2] if not isinstance(likelihood, Bernoulli) else LOGITS[:1, :, :1]
    p = likelihood.predict(outputs.expand(6, -1, -1))
    torch.testing.assert_close(p.epistemic, torch.zeros_like(p.epistemic))
    torch.testing.assert_close(p.aleatoric, likelihood.predict(outputs).total)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-30, 30), min_size=12, max_size=12))
def test_uncertainties_are_not_negative(logits):
    p = Categorical().predict(torch.tensor(logits).view(3, 2, 2))
    assert (p.epistemic >= 0).all()
    assert (p.aleatoric >= 0).all()
    assert (p.total <= math.log(2) + 1e-5).all()


def test_bernoulli_is_a_categorical_of_two():
    logits = LOGITS[..., :1]
    ours = Bernoulli().predict(logits)
    two = Categorical().predict(torch.cat([torch.zeros_like(logits), logits], -1))
    for name in ("mean", "aleatoric", "epistemic", "confidence", "samples"):
        torch.testing.assert_close(getattr(ours, name), getattr(two, name))


def test_regression_by_hand():
    outputs = torch.tensor([[[0.0]], [[2.0]]])
    p = GaussianNoise(0.5).predict(outputs)
    assert (p.mean.item(), p.epistemic.item(), p.aleatoric.item(), p.total.item()) == (1, 1, 0.25, 1.25)
    assert p.confidence is None


def test_regression_variance_is_the_mixtures():
    mean, raw = LOGITS, torch.randn(5, 4, 3, generator=G, dtype=torch.float64)
    likelihood = GaussianNoise("input", num_targets=3)
    p = likelihood.predict(torch.cat([mean, raw], -1))
    parts = td.Normal(mean.permute(1, 2, 0), p.noise.sqrt().permute(1, 2, 0))
    mixture = td.MixtureSameFamily(td.Categorical(logits=torch.zeros(4, 3, 5).double()), parts)
    torch.testing.assert_close(p.mean, mixture.mean)
    torch.testing.assert_close(p.total, mixture.variance)
    assert p.noise.shape == p.samples.shape == (5, 4, 3)


@pytest.mark.parametrize("likelihood", [Categorical(), GaussianNoise(0.5)])
def test_concatenate(likelihood):
    whole = likelihood.predict(LOGITS)
    joined = Prediction.concatenate([likelihood.predict(LOGITS[:, :1]), likelihood.predict(LOGITS[:, 1:])])
    for name in ("mean", "aleatoric", "epistemic", "confidence", "samples", "noise"):
        a, b = getattr(joined, name), getattr(whole, name)
        assert (a is None and b is None) or torch.allclose(a, b)
