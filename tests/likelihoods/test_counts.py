"""Counts against scipy: probabilities, moments, quantiles, entropy; and through fit."""

import numpy as np
import pytest
import torch
from scipy import stats

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.metrics import score
from posterity.training.fitting_data import as_dataset

G = torch.Generator().manual_seed(0)
OUTPUTS = torch.randn(3, 5, 2, generator=G, dtype=torch.float64) + 1
Y = torch.randint(0, 9, (5, 2), generator=G)
MEANS = OUTPUTS.exp().numpy()


def binomial(means, dispersion):
    size = 1 / dispersion
    return stats.nbinom(size, size / (size + means))


CASES = {
    "poisson": (pt.Poisson(), stats.poisson(MEANS)),
    "negative binomial": (pt.NegativeBinomial(0.6), binomial(MEANS, 0.6)),
    "wide": (pt.NegativeBinomial(8.0), binomial(MEANS, 8.0)),
}
EVERY = pytest.mark.parametrize(("likelihood", "reference"), CASES.values(), ids=CASES)


@EVERY
def test_log_prob(likelihood, reference):
    expected = torch.as_tensor(reference.logpmf(Y.numpy())).sum(-1)
    torch.testing.assert_close(likelihood.log_prob(OUTPUTS, Y), expected)


@EVERY
def test_moments_by_the_law_of_total_variance(likelihood, reference):
    p = likelihood.predict(OUTPUTS)
    torch.testing.assert_close(p.mean, torch.as_tensor(MEANS.mean(0)))
    torch.testing.assert_close(p.aleatoric, torch.as_tensor(reference.var().mean(0)))
    torch.testing.assert_close(p.epistemic, torch.as_tensor(MEANS.var(0)))
    torch.testing.assert_close(p.sd.square(), p.total)


@EVERY
@pytest.mark.parametrize("q", [0.01, 0.3, 0.5, 0.95])
def test_quantiles_are_the_mixtures(likelihood, reference, q):
    found = likelihood.predict(OUTPUTS).quantile(q).numpy()
    assert (reference.cdf(found).mean(0) >= q).all()
    assert (reference.cdf(found - 1).mean(0) < q).all()
    single = likelihood.predict(OUTPUTS[:1]).quantile([q])[0].numpy()
    assert np.array_equal(single, reference.ppf(q)[0])


def test_an_interval_holds_its_share():
    low, high = pt.Poisson().predict(OUTPUTS).interval(0.8)
    reference = stats.poisson(MEANS)
    assert ((reference.cdf(high.numpy()) - reference.cdf(low.numpy() - 1)).mean(0) >= 0.8).all()


@pytest.mark.parametrize(("rate", "tolerance"), [(0.3, 1e-7), (20.0, 1e-7), (1e6, 1e-5)])
def test_entropy(rate, tolerance):
    outputs = torch.full((1, 1, 1), rate, dtype=torch.float64).log()
    expected = stats.poisson(rate).entropy() if rate < 1e5 else 0.5 * np.log(2 * np.pi * np.e * rate)
    assert pt.Poisson().predict(outputs).entropy.item() == pytest.approx(float(expected), abs=tolerance)


def test_no_dispersion_is_the_poisson():
    nearly = pt.NegativeBinomial(1e-7).log_prob(OUTPUTS, Y)
    torch.testing.assert_close(nearly, pt.Poisson().log_prob(OUTPUTS, Y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), "learned"])
def test_wrong_dispersion(wrong):
    with pytest.raises(UsageError, match="dispersion"):
        pt.NegativeBinomial(wrong)


def test_integers_are_counts_where_the_likelihood_says_so():
    x, y, net = torch.randn(4, 2), torch.tensor([0, 3, 17, 2]), pt.bayesian(torch.nn.Linear(2, 2))
    assert as_dataset((x, y % 2), net).task == "classification"
    found = as_dataset((x, y), net, pt.Poisson())
    assert (found.task, found.y.tolist()) == ("regression", [[0], [3], [17], [2]])


@pytest.mark.parametrize("likelihood", [pt.Poisson, pt.NegativeBinomial])
def test_through_fit(network, likelihood, tmp_path, module):
    x = torch.randn(300, 3, generator=G)
    y = torch.poisson((0.8 * x[:, 0] + 1).exp(), generator=G).long().numpy()
    net = network(3, 1)
    before = -likelihood().log_prob(net.outputs(x, samples=8), torch.as_tensor(y).unsqueeze(1)).mean().item()
    result = pt.fit(net, (x, y), (x, y), likelihood=likelihood(), epochs=20, lr=0.02, batch_size=50)
    found = score(net.predict(x, seed=0), torch.as_tensor(y).unsqueeze(1), "regression")
    assert -found["log_likelihood"] < before - 0.2
    assert 0.8 < found["coverage_90"] <= 1
    assert not any("standardise" in warning for record in result.history for warning in record["warnings"])
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", module(3, 1))
    assert torch.equal(loaded.predict(x, seed=0).quantile(0.9), net.predict(x, seed=0).quantile(0.9))
    if likelihood is pt.NegativeBinomial:
        assert result.history[-1]["dispersion"] != pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("wrong", [-1.0, 0.5])
def test_what_is_not_a_count_is_refused(network, wrong):
    x, y = torch.randn(4, 3), torch.tensor([0.0, 1.0, wrong, 2.0])
    with pytest.raises(DataError, match="counts"):
        pt.fit(network(3, 1), (x, y), likelihood=pt.Poisson(), epochs=1)
