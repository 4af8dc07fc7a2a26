import json
import math
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as td

from posterity.core.errors import UsageError
from posterity.likelihoods import Bernoulli, Categorical, ClassPrediction, GaussianNoise, Prediction, RealPrediction
from posterity.likelihoods.classes import entropy

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


def test_regression_variance_is_the_mixtures():
    mean, raw = LOGITS, torch.randn(5, 4, 3, generator=G, dtype=torch.float64)
    likelihood = GaussianNoise("input", num_targets=3)
    p = likelihood.predict(torch.cat([mean, raw], -1))
    parts = td.Normal(mean.permute(1, 2, 0), p.noise_sd.permute(1, 2, 0))
    mixture = td.MixtureSameFamily(td.Categorical(logits=torch.zeros(4, 3, 5).double()), parts)
    torch.testing.assert_close(p.mean, mixture.mean)
    torch.testing.assert_close(p.total, mixture.variance)
    assert p.noise_sd.shape == p.samples.shape == (5, 4, 3)


EVERY = pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), GaussianNoise(0.5), GaussianNoise("input")])


def predicted(likelihood, rows=slice(None)):
    columns = {"bernoulli": 1, "categorical": 3, "gaussian": 2}[likelihood.kind]
    return likelihood.predict(LOGITS[:, rows, :columns])


def tensors(prediction):
    found = {field.name: getattr(prediction, field.name) for field in fields(prediction)}
    return {name: value for name, value in found.items() if name != "classes"}  # their names, which are no tensor


def equal(a, b):
    return type(a) is type(b) and all(torch.allclose(v, tensors(b)[n]) for n, v in tensors(a).items())


@EVERY
def test_parts_are_joined(likelihood):
    parts = [predicted(likelihood, slice(0, 1)), predicted(likelihood, slice(1, 4))]
    assert equal(Prediction.concatenate(parts), predicted(likelihood))


@EVERY
def test_rows_are_taken(likelihood):
    whole = predicted(likelihood)
    for rows in (slice(1, 3), slice(None, None, 2), [3, 0], torch.tensor([2, 2]), torch.tensor([True, False] * 2)):
        assert equal(whole[rows], predicted(likelihood, rows))
    assert equal(whole[2], whole[2:3])
    assert equal(whole[-1], whole[3:])
    assert len(whole[4:]) == 0
    assert [len(row) for row in whole] == [1] * 4
    with pytest.raises(IndexError, match="row 4 of a prediction of 4"):
        whole[4]


def test_what_cannot_be_joined():
    classes, real = predicted(Categorical()), predicted(GaussianNoise(0.5))
    alone = RealPrediction(real.mean, real.aleatoric_sd, real.epistemic_sd)
    for parts in ([], [classes, real], [real, alone]):
        with pytest.raises(UsageError, match="of one kind"):
            Prediction.concatenate(parts)


@EVERY
def test_arrays_and_lists(likelihood):
    p = predicted(likelihood)
    arrays, lists = p.to_numpy(), p.to_dict()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, getattr(p, name).numpy())
        assert name in p.by_sample or lists[name] == array.tolist()
    assert arrays["samples"].shape[0] == p.num_samples == 5
    assert json.loads(json.dumps(lists)) == lists
    assert "samples" not in lists
    half = type(p)(**{name: value.bfloat16() for name, value in tensors(p).items()})
    assert half.to_numpy()["mean"].dtype == np.float32


@EVERY
def test_printing_is_short(likelihood):
    text = repr(predicted(likelihood))
    assert len(text.splitlines()) == 3
    assert "at 4 inputs, from 5 weight samples" in text
    assert "tensor" not in text
    assert len(repr(predicted(likelihood)[4:]).splitlines()) == 1


def test_printing_says_its_numbers():
    p = ClassPrediction(torch.tensor([[0.75, 0.25]]), torch.tensor([0.5]), torch.tensor([0.0625]))
    assert "2 classes, mean confidence 0.75" in repr(p)
    assert "aleatoric 0.5, epistemic 0.0625" in repr(p)
    one = torch.ones(2, 1)
    p = RealPrediction(one, torch.tensor([[3.0], [6.0]]), torch.tensor([[4.0], [8.0]]))
    assert "moments alone" in repr(p)
    assert "1 target, sd 5 to 10" in repr(p)


@pytest.mark.parametrize("name", ["label", "confidence"])
def test_a_regression_has_no_classes(name):
    p = predicted(GaussianNoise(0.5))
    with pytest.raises(UsageError, match=f"no {name}: its targets are numbers"):
        getattr(p, name)
    assert not hasattr(p, name)
    assert hasattr(predicted(Categorical()), name)


@pytest.mark.parametrize(
    "ask", [lambda p: p.sd, lambda p: p.quantile(0.5), lambda p: p.interval(), lambda p: p.rescaled(0.0, 1.0)]
)
def test_classes_are_not_numbers(ask):
    with pytest.raises(UsageError, match="a prediction of classes has no"):
        ask(predicted(Categorical()))


def test_log_prob_of_classes():
    p, y = predicted(Categorical()), torch.tensor([0, 2, 1, 1])
    torch.testing.assert_close(p.log_prob(y), td.Categorical(probs=p.mean).log_prob(y))
    torch.testing.assert_close(p.expected_log_prob(y), td.Categorical(logits=LOGITS).log_prob(y).mean(0))
    torch.testing.assert_close(p.log_prob(y.numpy()), p.log_prob(y))
    torch.testing.assert_close(p.entropy, td.Categorical(probs=p.mean).entropy())
    certain = Categorical().predict(torch.tensor([[[500.0, 0.0]]]))
    assert certain.log_prob([1]).item() == pytest.approx(math.log(torch.finfo(torch.float32).tiny))


@pytest.mark.parametrize("y", [[0, 1, 2], [0, 1, 2, 3], [0, 1, -1, 0], [0.5, 0, 0, 0]])
def test_labels_that_do_not_fit(y):
    for ask in (predicted(Categorical()).log_prob, predicted(Categorical()).expected_log_prob):
        with pytest.raises(UsageError, match="label"):
            ask(torch.tensor(y))


def test_classes_from_moments_alone():
    p = predicted(Categorical())
    alone = ClassPrediction(p.mean, p.aleatoric, p.epistemic)
    assert alone.samples is None
    assert alone.num_samples == 0
    assert torch.equal(alone.label, p.label)
    assert torch.equal(alone.log_prob([0, 1, 2, 0]), p.log_prob([0, 1, 2, 0]))
    assert "samples" not in alone.to_numpy()
    with pytest.raises(UsageError, match="needs weight samples"):
        alone.expected_log_prob([0, 1, 2, 0])


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        predicted(Categorical()).mean = None
