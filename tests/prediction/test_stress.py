"""8 threads, 1000 predictions together, batch norm and dropout inside: the single answers, and nothing has changed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.data import Dataset

THREADS, PREDICTIONS, SEEDS = 8, 1000, 25
X = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
DATA = Dataset(X, torch.arange(32) % 2, "classification", 2)


def network():
    torch.manual_seed(0)
    layers = (nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
    net = pt.bayesian(nn.Sequential(*layers), rho=-1.0, likelihood=pt.Categorical(), seed=1)
    net(X)  # the batch norm's statistics are not those it began with
    return net


def state(net):
    """All that a prediction could change: parameters, buffers, modes, noise."""
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    return kept, [m.training for m in net.modules()], net.noise_source.state()


def predict_all(net):
    """1000 predictions by 8 threads that start together, and the single answers to compare them with."""
    single = [net.predict(X[:4], 3, seed=seed) for seed in range(SEEDS)]
    start = threading.Barrier(THREADS)

    def work(thread):
        start.wait()
        return [(n, net.predict(X[:4], 3, seed=n % SEEDS)) for n in range(thread, PREDICTIONS, THREADS)]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pair for each in pool.map(work, range(THREADS)) for pair in each]
    assert len(answers) == PREDICTIONS
    return [
        torch.equal(got.samples, single[n % SEEDS].samples) and torch.equal(got.epistemic, single[n % SEEDS].epistemic)
        for n, got in answers
    ]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_all_equal_the_single_answers(training, same):
    net = network().train(training)
    before, generator = state(net), torch.get_rng_state()
    assert all(predict_all(net))
    assert same(state(net), before)
    assert torch.equal(torch.get_rng_state(), generator)


def test_also_while_another_network_trains(same):
    net, other = network(), network()
    before, stop = state(net), threading.Event()
    epochs = []

    class Until(pt.Callback):
        def on_epoch(self, training, record):
            epochs.append(record["epoch"])
            if stop.is_set():
                training.stop("the predictions are done")

    trainer = threading.Thread(
        target=lambda: pt.fit(other, DATA, epochs=100_000, batch_size=8, progress=False, callbacks=[Until()])
    )
    trainer.start()
    try:
        assert all(predict_all(net))
    finally:
        stop.set()
        trainer.join(timeout=60)
    assert epochs
    assert not trainer.is_alive()
    assert same(state(net), before)
