"""fit: it learns, it is reproducible, and each of its settings does what it says."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import posterity as pt
from posterity import data
from posterity.metrics import score
from posterity.models import mlp


def test_learns_digits(digits):
    net = pt.bayesian(mlp((1, 8, 8), 10, hidden=(32,)), prior=pt.Gaussian("kaiming"), rho=-5.0, seed=0)
    rates = {"optimizer": "adam", "lr": 5e-3, "lr_sd": 5e-3}
    result = pt.fit(net, digits.train, epochs=15, batch_size=50, temperature=0.1, **rates)
    metrics = score(net.predict(digits.test.x, 16, seed=0), digits.test.y, digits.test.task)
    assert metrics["accuracy"] > 0.93
    assert metrics["nll"] < 0.35
    assert result.history[-1]["nll"] < 0.3 * result.history[0]["nll"]
    assert [r["epoch"] for r in result.history] == list(range(1, 16))
    assert result.stopped == "epochs"
    assert result.best_epoch is None


def test_learns_the_function_and_the_noise_of_a_regression():
    splits = data.load("gap")
    torch.manual_seed(0)
    net = pt.bayesian(mlp((1,), 1, hidden=(32, 32), activation="tanh"), prior=pt.Gaussian(1.0), rho=-5.0, seed=0)
    rates = {"optimizer": "adam", "lr": 1e-2, "lr_sd": 1e-2}
    pt.fit(net, splits.train, epochs=300, batch_size=25, temperature=0.05, **rates)
    metrics = score(net.predict(splits.test.x, 32, seed=0), splits.test.y, splits.test.task)
    assert metrics["rmse"] < 0.17  # the noise's own sd is 0.1, that of the targets 0.8
    sd = nn.functional.softplus(net.likelihood.rho).item()
    assert 0.07 < sd < 0.2  # began at log 2 = 0.69
    middle = net.predict(torch.full((1, 1), -0.1), 64, seed=0).epistemic.item()
    inside = net.predict(splits.train.x, 64, seed=0).epistemic.mean().item()
    assert middle > 2 * inside


def test_same_seed_same_bits_and_another_seed_others(make_net, small, small_val, records, same):
    def run(seed):
        net = make_net()
        result = pt.fit(net, small, small_val, epochs=2, batch_size=16, seed=seed)
        return dict(net.state_dict()), records(result.history)

    assert same(run(1), run(1))
    first, second = run(1), run(2)
    assert not torch.equal(first[0]["posterior.mean"], second[0]["posterior.mean"])
    assert first[1] != second[1]


def test_global_generator_is_left_alone(make_net, small):
    net = make_net(dropout=True)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    pt.fit(net, small, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_generator_does_not_decide(make_net, small):
    nets = [make_net(dropout=True) for _ in range(2)]
    for seed, net in enumerate(nets):
        torch.manual_seed(seed)
        pt.fit(net, small, epochs=1)
    assert torch.equal(nets[0].posterior.mean, nets[1].posterior.mean)


def test_numpy_pairs(make_net, small, same):
    one, other = make_net(), make_net()
    pt.fit(one, (small.x.numpy(), small.y.numpy()), (small.x.numpy(), small.y.numpy()), epochs=1)
    pt.fit(other, small, small, epochs=1)
    assert same(dict(one.state_dict()), dict(other.state_dict()))


def test_printing_a_result_is_one_line(make_net, small, small_val):
    result = pt.fit(make_net(), small, small_val, epochs=2, average="swa")
    shown = repr(result)
    assert "\n" not in shown
    last = result.history[-1]
    training = f"training: nll {last['nll']:.4g}, accuracy {last['accuracy']:.2%}  "
    validation = f"validation: nll {last['val_nll']:.4g}, accuracy {last['val_accuracy']:.2%}  "
    for part in ("FitResult(2 epochs", "stopped: epochs, with an average", training + validation):
        assert part in shown
    assert repr(result.history).startswith(f"History(2 records, the last: {training}")


def test_what_a_training_leaves_to_act_on_is_warned_of(curve, curve_net):
    """By the display where there is one, else by Python's warnings, each once."""
    with pytest.warns(pt.TrainingWarning, match="the standard deviations have not arrived") as found:
        result = pt.fit(curve_net(), curve, epochs=1, optimizer="adam", lr=1e-4, lr_sd=1e-4)
    assert [str(each.message) for each in found] == [*result.history[-1]["warnings"], *result.ending["warnings"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pt.fit(curve_net(), curve, epochs=1, optimizer="adam", lr=1e-4, lr_sd=1e-4, progress=True)
