"""Class weights, smoothing, maps, ordered classes, labels and Student-t noise against independent references."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as td
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.metrics import score

G = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(3, 6, 4, generator=G, dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 3, 1, 0])
WEIGHT = [0.5, 2.0, 1.0, 3.0]


def test_class_weight_and_smoothing_are_pytorchs():
    likelihood = pt.Categorical(class_weight=WEIGHT, label_smoothing=0.1)
    weight = torch.tensor(WEIGHT, dtype=torch.float64)
    for logits, ours in zip(LOGITS, likelihood.log_prob(LOGITS, LABELS), strict=True):
        theirs = -F.cross_entropy(logits, LABELS, weight, reduction="none", label_smoothing=0.1)
        torch.testing.assert_close(ours, theirs)
    plain = pt.Categorical().log_prob(LOGITS, LABELS)
    torch.testing.assert_close(pt.Categorical(class_weight=WEIGHT).log_prob(LOGITS, LABELS), plain * weight[LABELS])
    assert torch.equal(likelihood.predict(LOGITS).mean, pt.Categorical().predict(LOGITS).mean)


def test_class_weight_is_saved(network, tmp_path, module):
    pt.save(network(likelihood=pt.Categorical(class_weight=[1.0, 3.0], label_smoothing=0.2)), tmp_path / "net")
    loaded = pt.load(tmp_path / "net", module()).likelihood
    assert loaded.class_weight.tolist() == [1.0, 3.0]
    assert loaded.label_smoothing == 0.2
    assert pt.Categorical().options() == {}


@pytest.mark.parametrize("wrong", [{"class_weight": [-1.0]}, {"label_smoothing": 1.0}, {"class_weight": 2.0}], ids=str)
def test_wrong_weights(wrong):
    with pytest.raises(UsageError, match=r"class_weight|label_smoothing"):
        pt.Categorical(**wrong)


def test_labels_without_a_weight_are_refused(network):
    with pytest.raises(DataError, match="2 class weights"):
        pt.fit(network(3, 3), (torch.randn(6, 3), LABELS), likelihood=pt.Categorical(class_weight=[1, 2]), epochs=1)


def test_maps():
    logits = torch.randn(3, 2, 4, 5, 6, generator=G, dtype=torch.float64)
    y = torch.randint(0, 4, (2, 5, 6), generator=G)
    by_place = td.Categorical(logits=logits.movedim(2, -1)).log_prob(y)
    torch.testing.assert_close(pt.Categorical().log_prob(logits, y), by_place.sum((-1, -2)))
    p = pt.Categorical().predict(logits)
    assert (p.mean.shape, p.label.shape, p.epistemic.shape) == ((2, 5, 6, 4), (2, 5, 6), (2, 5, 6))
    torch.testing.assert_close(p.mean, logits.softmax(2).mean(0).movedim(1, -1))
    torch.testing.assert_close(p.log_prob(y), by_place.sum((-1, -2)).exp().mean(0).log())
    torch.testing.assert_close(p.expected_log_prob(y), by_place.sum((-1, -2)).mean(0))


def test_maps_through_the_loss():
    net = pt.bayesian(torch.nn.Conv2d(1, 3, 3, padding=1), likelihood=pt.Categorical(), seed=0)
    x, y = torch.randn(4, 1, 5, 5), torch.randint(0, 3, (4, 5, 5))
    loss = pt.negative_elbo(net, net.likelihood, x, y, num_data=4, samples=2)
    loss.backward()
    assert loss.item() > 0
    assert net.predict(x).mean.shape == (4, 5, 5, 3)


@pytest.mark.parametrize("cuts", ["learnt", [-1.0, 0.2, 2.0]])
def test_ordinal(cuts):
    likelihood = pt.Ordinal(4, cuts=cuts).double()
    found = likelihood.cuts().detach()
    assert (found.diff() > 0).all()
    z = LOGITS[..., :1]
    cumulative = F.pad((found - z).sigmoid(), (1, 0))
    probs = torch.cat([cumulative, torch.ones_like(z)], -1).diff(dim=-1)
    expected = probs.log().gather(-1, LABELS.expand(3, 6).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(likelihood.log_prob(z, LABELS), expected)
    torch.testing.assert_close(likelihood.predict(z).samples, probs)
    extreme = likelihood.log_probs(torch.tensor([[[-500.0], [500.0]]], dtype=torch.float64))
    assert extreme.isfinite().all()


def test_two_ordered_classes_are_the_bernoulli():
    ours = pt.Ordinal(2, cuts=[0.0]).double().log_prob(LOGITS[..., :1], LABELS % 2)
    torch.testing.assert_close(ours, pt.Bernoulli().log_prob(LOGITS[..., :1], LABELS % 2))


def test_wrong_orders(network):
    for wrong in ({"num_classes": 1}, {"num_classes": 3, "cuts": [1.0, 0.0]}, {"num_classes": 3, "cuts": "even"}):
        with pytest.raises(UsageError):
            pt.Ordinal(**wrong)
    with pytest.raises(DataError, match="classes 0 to 2"):
        pt.fit(network(3, 1), (torch.randn(6, 3), LABELS), likelihood=pt.Ordinal(3), epochs=1)


def test_ordinal_learns_its_cut_points(network):
    x = torch.randn(300, 3, generator=G)
    y = torch.bucketize(x[:, 0].contiguous(), torch.tensor([-0.5, 0.5, 1.0]))
    net = network(3, 1, likelihood=pt.Ordinal(4))
    pt.fit(net, (x, y), epochs=30, lr=0.03, batch_size=50)
    assert score(net.predict(x, seed=0), y, "classification")["accuracy"] > 0.75
    assert not torch.allclose(net.likelihood.cuts(), pt.Ordinal(4).cuts())


def test_multi_label():
    y = torch.randint(0, 2, (6, 4), generator=G)
    likelihood = pt.MultiLabel()
    expected = td.Bernoulli(logits=LOGITS).log_prob(y.double()).sum(-1)
    torch.testing.assert_close(likelihood.log_prob(LOGITS, y), expected)
    p = likelihood.predict(LOGITS)
    torch.testing.assert_close(p.total, td.Bernoulli(LOGITS.sigmoid().mean(0)).entropy())
    torch.testing.assert_close(p.aleatoric, td.Bernoulli(logits=LOGITS).entropy().mean(0))
    assert torch.equal(p.label, (LOGITS.sigmoid().mean(0) > 0.5).long())


def test_multi_label_through_fit(network):
    x = torch.randn(200, 3, generator=G)
    y = (x > 0).long().numpy()
    net = network(3, 3)
    pt.fit(net, (x, y), (x, y), likelihood=pt.MultiLabel(), epochs=20, lr=0.03, batch_size=50)
    found = score(net.predict(x, seed=0), torch.as_tensor(y), "regression")
    assert found["accuracy"] > 0.85
    with pytest.raises(DataError, match="0 or 1"):
        pt.fit(network(3, 3), (x, 2 * y), likelihood=pt.MultiLabel(), epochs=1)


def test_student_noise():
    likelihood = pt.StudentTNoise(5.0, scale=0.7)
    y = torch.randn(6, 4, generator=G, dtype=torch.float64)
    expected = stats.t(5, LOGITS.numpy(), 0.7).logpdf(y.numpy()).sum(-1)
    torch.testing.assert_close(likelihood.log_prob(LOGITS, y), torch.as_tensor(expected))
    p = likelihood.predict(LOGITS)
    torch.testing.assert_close(p.aleatoric, torch.full_like(p.mean, 0.49 * 5 / 3))
    torch.testing.assert_close(p.epistemic, LOGITS.var(0, correction=0))
    for q in (0.02, 0.5, 0.9):
        shares = stats.t(5, LOGITS.numpy(), 0.7).cdf(p.quantile(q).numpy()).mean(0)
        assert shares == pytest.approx(np.full((6, 4), q), abs=1e-9)
    assert p[:2].quantile(0.9).shape == (2, 4)
    moved = p.rescaled(3.0, 2.0)
    torch.testing.assert_close(moved.quantile(0.9), 3 + 2 * p.quantile(0.9))


def test_entropy_of_student_noise():
    p = pt.StudentTNoise(5.0, scale=0.7).predict(LOGITS[:1, :2, :1])
    assert p.entropy.flatten().tolist() == pytest.approx([stats.t(5, 0, 0.7).entropy()] * 2, abs=2e-3)


def test_much_freedom_is_gaussian():
    y = torch.randn(6, 4, generator=G, dtype=torch.float64)
    ours = pt.StudentTNoise(1e7, scale=0.7).log_prob(LOGITS, y)
    torch.testing.assert_close(ours, pt.GaussianNoise(0.7).log_prob(LOGITS, y), rtol=1e-5, atol=1e-5)


def test_outliers_do_not_pull_a_student_away(network, tmp_path, module):
    x = torch.randn(200, 3, generator=G)
    clean = x[:, :1]
    y = clean.clone()
    y[::10] += 5
    errors = {}
    for likelihood in (pt.StudentTNoise(3.0), pt.GaussianNoise()):
        net = network(3, 1)
        pt.fit(net, (x, y), likelihood=likelihood, epochs=40, lr=0.05, batch_size=50)
        errors[likelihood.kind] = (net.predict(x, seed=0).mean - clean).abs().mean().item()
        pt.save(net, tmp_path / likelihood.kind)
        loaded = pt.load(tmp_path / likelihood.kind, module(3, 1))
        assert torch.equal(loaded.predict(x, seed=0).sd, net.predict(x, seed=0).sd)
    assert errors["student_t_noise"] < 0.5 * errors["gaussian"]


@pytest.mark.parametrize("wrong", [{"df": 2.0}, {"df": float("inf")}, {"scale": 0.0}, {"scale": "input"}], ids=str)
def test_wrong_student_noise(wrong):
    with pytest.raises(UsageError, match=r"df|scale"):
        pt.StudentTNoise(**wrong)
