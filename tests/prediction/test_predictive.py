"""Prediction: the same whatever the batches, reproducible, leaving the network as it was."""

import warnings
from functools import partial

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.posteriors import MeanField
from posterity.prediction import together

G = torch.Generator().manual_seed(0)
X, IMAGES = torch.randn(40, 3, generator=G), torch.randn(40, 1, 6, 6, generator=G)


@pytest.fixture
def mlp(network):
    return partial(network, width=5, norm=True, dropout=True, rho=-1.0, likelihood=pt.Categorical())


@pytest.fixture
def conv():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    return pt.bayesian(model, rho=-1.0, likelihood=pt.Categorical(), seed=1)


@pytest.fixture(params=["mlp", "conv"])
def case(request, mlp, conv):
    """A network and its inputs."""
    return (mlp(), X) if request.param == "mlp" else (conv, IMAGES)


def same(a, b):
    for name in ("mean", "aleatoric", "epistemic", "samples", "confidence"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=1e-4, atol=1e-5)


def test_by_hand(mlp):
    net = mlp().eval()
    p = net.predict(X, 6, seed=3)
    twin = mlp(seed=3).eval()
    probs = torch.stack([twin(X).softmax(-1) for _ in range(6)]).detach()
    torch.testing.assert_close(p.samples, probs)
    torch.testing.assert_close(p.mean, probs.mean(0))
    assert not p.mean.requires_grad
    assert (p.epistemic > 0).any()


@pytest.mark.parametrize("batch_size", [1, 7, 31, 32, 40, 1000])
def test_batch_size_does_not_matter(case, batch_size):
    net, x = case
    same(net.predict(x, 5, seed=3, batch_size=batch_size), net.predict(x, 5, seed=3))


@pytest.mark.parametrize("at_a_time", [1, 150, 400])
def test_memory_bound_does_not_matter(case, at_a_time, monkeypatch):
    net, x = case[0], case[1][:9]
    expected = net.predict(x, 7, seed=3)
    monkeypatch.setattr(together, "SAMPLES_AT_A_TIME", at_a_time)
    same(net.predict(x, 7, seed=3), expected)


def test_memory_bound_limits_the_weights_drawn_together(conv, monkeypatch):
    net, drawn = conv, []
    original = MeanField.sample
    monkeypatch.setattr(together, "SAMPLES_AT_A_TIME", 3 * net.num_weights)
    monkeypatch.setattr(MeanField, "sample", lambda q, noise: drawn.append(len(noise)) or original(q, noise))
    net.predict(IMAGES[:9], 8)
    assert drawn == [3, 3, 2]


def test_seed_repeats_and_no_seed_moves_on(mlp):
    net = mlp()
    same(net.predict(X, 4, seed=3), net.predict(X, 4, seed=3))
    assert not torch.allclose(net.predict(X, 4, seed=3).mean, net.predict(X, 4, seed=4).mean)
    assert not torch.allclose(net.predict(X, 4).mean, net.predict(X, 4).mean)


@pytest.mark.parametrize("seed", [3, None])
def test_the_networks_noise_is_left_alone(mlp, seed):
    net, other = mlp(), mlp()
    net.predict(X, 4, seed=seed)
    assert torch.equal(net.noise_source.state(), other.noise_source.state())
    assert torch.equal(net.draw(), other.draw())


def test_without_a_seed_the_global_generator_governs(mlp):
    net = mlp()
    torch.manual_seed(5)
    first = net.predict(X, 4)
    torch.manual_seed(5)
    assert torch.equal(net.predict(X, 4).mean, first.mean)


@pytest.mark.parametrize("options", [{"seed": 3}, {"seed": 3, "likelihood": pt.GaussianNoise(0.5, num_targets=2)}])
def test_with_a_seed_nothing_global_changes(mlp, options):
    net = mlp(**options)
    before = torch.get_rng_state()
    net.predict(X, 4, seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_point_needs_no_seed(mlp):
    net, before = mlp(posterior="point"), torch.get_rng_state()
    net.predict(X)
    assert torch.equal(torch.get_rng_state(), before)


def test_modes_are_untouched(mlp):
    net = mlp()
    net.train()
    net.model[1].eval()  # frozen statistics
    modes = [m.training for m in net.modules()]
    statistics = net.model[1].running_mean.clone()
    net.predict(X, 2)
    assert [m.training for m in net.modules()] == modes
    assert torch.equal(net.model[1].running_mean, statistics)
    net.eval()
    net.predict(X, 2)
    assert not net.training


def test_modes_and_generator_are_untouched_by_an_error(mlp):
    net = mlp()
    source = net.noise_source
    with pytest.raises(DataError):
        net.predict(torch.zeros(2, 9), 2, seed=3)
    assert net.training
    assert net.noise_source is source


def test_training_mode_is_not_used(mlp):
    net = mlp()
    trained = net.train().predict(X, 3, seed=3)
    same(trained, net.eval().predict(X, 3, seed=3))


def test_point_predicts_with_one_sample(mlp):
    net = mlp(posterior="point")
    p = net.predict(X, 32)
    assert p.samples.shape == (1, 40, 2)
    assert p.epistemic.abs().max() < 1e-6
    torch.testing.assert_close(p.mean, net.eval()(X).softmax(-1).detach())


def test_what_is_no_mistake_of_the_inputs_is_not_called_one():
    class Fails(nn.Linear):
        def forward(self, x):
            raise RuntimeError(*words)

    net, words = pt.bayesian(Fails(3, 2), likelihood=pt.Categorical()), ()
    with pytest.raises(DataError, match=r"cannot take inputs of shape .*: RuntimeError"):
        net.predict(X)
    words = ("DefaultCPUAllocator: can't allocate memory",)
    with pytest.raises(RuntimeError, match=r"^DefaultCPU"):
        net.predict(X)


def test_read_only_arrays(mlp):
    """As data frames give them: no warning, and a network that writes into its inputs does not write there."""

    class Doubles(nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(2))

    x = X.numpy().copy()
    x.setflags(write=False)
    before = x.copy()
    net = pt.bayesian(Doubles(3, 2), likelihood=pt.Categorical())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.predict(x, 2)
        net.predictor(2).predict(x)
    assert (x == before).all()


def test_regression(mlp):
    net = mlp(likelihood=pt.GaussianNoise(0.5, num_targets=2))
    p = net.predict(X, 6, batch_size=7, seed=3)
    torch.testing.assert_close(p.aleatoric, torch.full((40, 2), 0.25))
    torch.testing.assert_close(p.epistemic, p.samples.var(0, correction=0))
    torch.testing.assert_close(p.noise_sd, torch.full((6, 40, 2), 0.5))


def test_epistemic_uncertainty_grows_away_from_the_data():
    net = pt.bayesian(nn.Linear(1, 1), rho=-1.0, likelihood=pt.GaussianNoise(0.1), seed=1)
    spread = net.predict(torch.tensor([[0.0], [1.0], [10.0]]), 2000, seed=3).epistemic.squeeze(-1)
    variance = net.posterior.variance()[0].item()
    expected = torch.tensor([1, 2, 101]) * variance
    torch.testing.assert_close(spread, expected, rtol=0.15, atol=0)


def test_errors(mlp):
    with pytest.raises(UsageError, match="no likelihood"):
        mlp(likelihood=None).predict(X)
    with pytest.raises(UsageError, match="no inputs"):
        mlp().predict(X[:0])
    with pytest.raises(DataError, match=r"cannot take inputs of shape \(2, 9\): .*; inputs are rows"):
        mlp().predict(torch.zeros(2, 9))
    net = pt.bayesian(nn.Linear(3, 2), likelihood=pt.Categorical())
    with pytest.raises(DataError, match=r"3 rows of inputs with outputs of shape \(2,\); .* one row is x\[None\]"):
        net.predict(X[0])
    square = pt.bayesian(nn.Linear(3, 3), likelihood=pt.MultiLabel())
    with pytest.raises(DataError, match=r"3 rows of inputs with outputs of shape \(3,\)"):
        square.predict(X[0])
    with pytest.raises(UsageError, match="at least 1"):
        mlp().predict(X, samples=0)
    with pytest.raises(UsageError, match="at least 1"):
        mlp().predict(X, batch_size=0)
