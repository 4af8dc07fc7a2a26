"""Predictions from many threads: each as if it were alone, and the network none the wiser."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import DataError
from posterity.data import Dataset

THREADS, SEEDS = 8, 12
G = torch.Generator().manual_seed(0)
X = torch.randn(30, 3, generator=G)
Y = torch.arange(30) % 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.lstm(x.unsqueeze(1))[0][:, -1])


class Counting(nn.Module):
    """Changes a buffer and an attribute in every pass, in eval mode as well."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(3, 2), 0
        self.register_buffer("moving", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.moving.mul_(0.5).add_(x.detach().mean())
        return self.linear(x) + self.moving


def normalised():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def folding():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


NETS = {"batch norm": normalised, "together": folding, "recurrent": Recurrent, "buffer": Counting}


def bayesian_of(name, **options):
    torch.manual_seed(0)
    return pt.bayesian(NETS[name](), **{"rho": -1.0, "likelihood": pt.Categorical(), "seed": 1, **options})


def state(net):
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    return kept, [m.training for m in net.modules()], net.noise_source.state()


def unchanged(net, before):
    values, modes, noise = before
    now = net.state_dict()
    same = now.keys() == values.keys() and all(torch.equal(now[name], value) for name, value in values.items())
    return same and [m.training for m in net.modules()] == modes and torch.equal(net.noise_source.state(), noise)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_each_as_if_alone(name, training):
    net = bayesian_of(name).train(training)
    alone = [net.predict(X, 4, seed=seed).samples for seed in range(SEEDS)]
    assert not torch.allclose(alone[0], alone[1])
    before, generator = state(net), torch.get_rng_state()
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda seed: net.predict(X, 4, seed=seed).samples, list(range(SEEDS)) * 5))
    assert all(torch.equal(ours, alone[place % SEEDS]) for place, ours in enumerate(together))
    assert unchanged(net, before)
    assert torch.equal(torch.get_rng_state(), generator)
    assert getattr(net.model, "calls", 0) == 0


def test_hundreds_of_small_ones():
    net = bayesian_of("batch norm")
    alone = [net.predict(X[:4], 2, seed=seed).mean for seed in range(SEEDS)]
    before = state(net)
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda n: net.predict(X[:4], 2, seed=n % SEEDS).mean, range(400)))
    assert all(torch.equal(ours, alone[n % SEEDS]) for n, ours in enumerate(found))
    assert unchanged(net, before)


def train(name, **options):
    net = bayesian_of(name, likelihood=None)
    net.likelihood = pt.Categorical()
    torch.manual_seed(2)
    options = {"epochs": 6, "batch_size": 10, "progress": False, **options}
    return net, lambda: pt.fit(net, Dataset(X, Y, "classification", 2), **options)


def disturbing(net, began, stop, found):
    began.wait()
    while not stop.is_set():
        try:
            assert net.predict(X, 4, seed=len(found)).mean.isfinite().all()
            assert "num_weights" in repr(net)
            found.append(None)
        except BaseException as error:
            found.append(error)
            return


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("options", [{"samples": 2}, {"estimator": "local"}], ids=["sample", "local"])
def test_training_does_not_notice(name, options):
    undisturbed, run = train(name, **options)
    run()
    net, run = train(name, **options)
    began, stop, found = threading.Barrier(4), threading.Event(), [[] for _ in range(3)]
    threads = [threading.Thread(target=disturbing, args=(net, began, stop, each)) for each in found]
    for thread in threads:
        thread.start()
    try:
        began.wait()
        run()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [error for each in found for error in each if error is not None] == []
    assert all(found)
    assert unchanged(net, state(undisturbed))


class Reading(nn.Module):
    """Reads a number in eval mode, which vmap cannot: only a prediction finds out."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        out = self.linear(x)
        return out if self.training else out + 0 * out.sum().item()


def test_what_a_prediction_finds_out_does_not_change_the_training():
    nets = [pt.bayesian(Reading(), rho=-1.0, likelihood=pt.Categorical(), seed=1) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    nets[1].predict(X, 4, seed=0)
    assert nets[1]._trains_together.folds
    assert torch.equal(nets[0].outputs(X, samples=3), nets[1].outputs(X, samples=3))


def test_a_wrong_input_says_nothing_of_the_network():
    net = bayesian_of("together")
    expected = copy.deepcopy(net).predict(X, 4, seed=0).samples
    with pytest.raises(DataError):
        net.predict(torch.zeros(2, 9), 4, seed=0)
    with pytest.raises(RuntimeError):
        net.outputs(torch.zeros(2, 9), samples=3)
    assert net._predicts_together.folds
    assert net._trains_together.folds
    assert torch.equal(net.predict(X, 4, seed=0).samples, expected)


def test_a_deep_copy_predicts_by_itself():
    net = bayesian_of("batch norm")
    twin = copy.deepcopy(net)
    expected = net.predict(X, 4, seed=0).mean
    with torch.no_grad():
        net.posterior.mean.zero_()
        net.model[1].running_mean.fill_(5.0)
    assert torch.equal(twin.predict(X, 4, seed=0).mean, expected)
    assert not torch.allclose(net.predict(X, 4, seed=0).mean, expected)
