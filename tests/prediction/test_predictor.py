"""A predictor: what the network would have answered, frozen, in raw units, whoever else is at work."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.data import Dataset
from posterity.prediction import together

G = torch.Generator().manual_seed(0)
X, IMAGES = torch.randn(40, 3, generator=G), torch.randn(40, 1, 6, 6, generator=G)


def families(network):
    """By family: a network, and how many vectors a predictor of 8 draws has."""
    low_rank, points = network(posterior="low_rank", rank=3), [network(posterior="point", init=n) for n in range(3)]
    bag = network(likelihood=pt.Categorical())
    bag.posterior = pt.Samples(bag.draw(12).detach())
    few = network(likelihood=pt.Categorical())
    few.posterior = pt.Samples(few.draw(5).detach())
    nets = {
        "mean_field": (network(), 8),
        "tied": (network(posterior="tied"), 8),
        "low_rank": (low_rank, 8),
        "full": (network(posterior="full"), 8),
        "point": (network(posterior="point"), 1),
        "mixture": (pt.ensemble([network(init=n) for n in range(3)]), 8),
        "mixture of points": (pt.ensemble(points), 3),
        "samples": (bag, 8),
        "few samples": (few, 5),
    }
    for net, _ in nets.values():
        net.likelihood = pt.Categorical()
    return nets


def same(a, b):
    for name in ("mean", "aleatoric", "epistemic", "samples"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "family",
    ["mean_field", "tied", "low_rank", "full", "point", "mixture", "mixture of points", "samples", "few samples"],
)
def test_answers_as_the_network_with_its_seed(network, family):
    net, vectors = families(network)[family]
    predictor = net.predictor(8, seed=3)
    assert predictor.num_samples == vectors
    assert predictor.weights.shape == (vectors, net.num_weights)
    same(predictor(X), net.predict(X, 8, seed=3))
    same(predictor.predict(X, batch_size=7), predictor(X))
    assert torch.equal(predictor(X).mean, predictor(X).mean)
    drawn = vectors == 8
    assert predictor.seed == (3 if drawn else None)


def conv():
    layers = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    return pt.bayesian(nn.Sequential(*layers), rho=-1.0, likelihood=pt.Categorical(), seed=1)


@pytest.mark.parametrize("rows", [1, together.FEW_ROWS_FROZEN, 40])
def test_images_and_batch_norm(rows):
    net = conv()
    net(IMAGES)  # moves the batch norm's statistics
    predictor = net.predictor(6, seed=3)
    same(predictor(IMAGES[:rows]), net.predict(IMAGES[:rows], 6, seed=3))
    assert predictor._together.folds


def test_the_mean_weights_are_asked_for_by_name(network):
    net = network(likelihood=pt.Categorical())
    predictor = net.predictor(None)
    assert predictor.mean_weights
    assert "mean weights of a mean_field posterior" in repr(predictor)
    torch.testing.assert_close(predictor(X).mean, net.trial(X).softmax(-1))


def test_without_a_seed_it_says_which_it_took(network):
    net = network(likelihood=pt.Categorical())
    predictor = net.predictor(4)
    assert not torch.allclose(predictor(X).mean, net.predictor(4)(X).mean)
    same(predictor(X), net.predict(X, 4, seed=predictor.seed))
    assert f"4 frozen draws of a mean_field posterior (seed {predictor.seed})" in repr(predictor)


def test_nothing_that_happens_to_the_network_reaches_it(network):
    noise = pt.GaussianNoise("learnt", num_targets=2)
    net = network(norm=True, dropout=True, select=["0.*"], likelihood=noise)
    predictor = net.predictor(4, seed=3)
    before = predictor(X)
    with torch.no_grad():
        for tensor in (*net.parameters(), *net.buffers()):
            tensor.add_(1)
    net.train()(X)
    assert torch.equal(predictor(X).mean, before.mean)
    assert torch.equal(predictor(X).sd, before.sd)
    assert not torch.allclose(net.predict(X, 4, seed=3).mean, before.mean)
    with torch.no_grad():
        predictor.views["0.weight"].zero_()
    assert net.posterior.mean.abs().min() > 0


def test_making_one_changes_nothing(network):
    net, other = (network(norm=True, likelihood=pt.Categorical()) for _ in range(2))
    before, modes = torch.get_rng_state(), [m.training for m in net.modules()]
    net.predictor(4, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert [m.training for m in net.modules()] == modes
    assert torch.equal(net.draw(), other.draw())


def test_raw_inputs_and_units(network):
    x, y = 100 + 20 * X.double(), 1e9 + 4 * torch.randn(40, 2, generator=G, dtype=torch.float64)
    data = Dataset(x, y, "regression")
    known = pt.Standardisation.of(data)
    net = network(likelihood=pt.GaussianNoise(0.5, num_targets=2))
    answer = net.predictor(4, seed=3, standardisation=known)(x)
    expected = net.predict(known.inputs(x), 4, seed=3).rescaled(known.y_mean, known.y_sd)
    assert answer.mean.dtype == torch.float64
    torch.testing.assert_close(answer.mean, expected.mean)
    torch.testing.assert_close(answer.sd, expected.sd)
    torch.testing.assert_close(answer.interval()[0], expected.interval()[0])
    with pytest.raises(DataError, match="3 features"):
        net.predictor(4, standardisation=known)(x[:, :2])


def test_names_of_classes(network):
    labels = ["cat", "dog"]
    data = Dataset(100 + 20 * X, torch.arange(40) % 2, "classification", 2)
    net = network(likelihood=pt.Categorical())
    predictor = net.predictor(4, seed=3, labels=labels, standardisation=pt.Standardisation.of(data))
    answer = predictor(data.x)
    assert answer.name == [labels[k] for k in answer.label]
    assert answer.classes == ("cat", "dog")
    assert answer[3:5].name == answer.name[3:5]
    assert pt.Prediction.concatenate([answer[:3], answer[3:]]).name == answer.name
    assert answer.to_dict()["name"] == answer.name
    assert "classes cat, dog" in repr(predictor)
    with pytest.raises(UsageError, match="3 names of classes"):
        net.predictor(4, labels=["a", "b", "c"])(X)
    with pytest.raises(UsageError, match="none were given"):
        _ = net.predict(X, 2).name


def test_names_are_not_for_numbers(network):
    net = network(likelihood=pt.GaussianNoise(0.5, num_targets=2))
    with pytest.raises(UsageError, match="targets are numbers"):
        net.predictor(2, labels=["a", "b"])(X)


@pytest.mark.parametrize("samples", [0, -1, 2.5, True, "8"])
def test_wrong_numbers_of_samples(network, samples):
    with pytest.raises(UsageError, match="whole number"):
        network(likelihood=pt.Categorical()).predictor(samples)


def test_without_a_likelihood_it_is_refused(network):
    with pytest.raises(UsageError, match="no likelihood"):
        network().predictor()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_inputs_that_are_not_numbers_are_refused_with_their_row(network, bad):
    net = network(likelihood=pt.Categorical())
    rows = X.double().tolist()
    rows[7][1] = bad
    known = pt.Standardisation.of(Dataset(X, torch.arange(40) % 2, "classification", 2))
    for ask in (net.predict, net.predictor(2), net.predictor(2, standardisation=known)):
        with pytest.raises(DataError, match=r"NaN or infinite.*row 7"):
            ask(torch.tensor(rows, dtype=torch.float64))
        with pytest.raises(DataError, match="row 7"):
            ask(rows)


@pytest.mark.parametrize("nothing", [[], torch.zeros(0, 3), 3.0])
def test_no_inputs_are_refused(network, nothing):
    net = network(likelihood=pt.Categorical())
    for ask in (net.predict, net.predictor(2)):
        with pytest.raises(DataError):
            ask(nothing)


def test_words_are_refused(network):
    with pytest.raises(DataError, match="numbers"):
        network(likelihood=pt.Categorical()).predict([["a", "b", "c"]])


def test_many_threads_while_the_network_trains(network):
    net = network(norm=True, dropout=True, likelihood=pt.Categorical())
    data = Dataset(X, torch.arange(40) % 2, "classification", 2)
    predictor = net.predictor(4, seed=3)
    expected = [predictor(X[n : n + 1]).mean for n in range(40)]
    trained = threading.Event()

    def train():
        try:
            pt.fit(net, data, epochs=20, batch_size=10, progress=False)
        finally:
            trained.set()

    with ThreadPoolExecutor(9) as pool:
        training = pool.submit(train)
        found = []
        while not trained.is_set() or not found:
            found += pool.map(lambda n: predictor(X[n : n + 1]).mean, range(40))
        training.result()
    assert all(torch.equal(ours, expected[n % 40]) for n, ours in enumerate(found))
    assert not torch.allclose(net.predict(X, 4, seed=3).mean, predictor(X).mean)
