"""What an epoch's record says of the weights' health, what it warns of, and what it does not."""

import math
import warnings

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.data import Dataset
from posterity.training.diagnostics import constant_score

STILL = {"optimizer": "adam", "lr": 1e-9, "lr_sd": 1e-9, "temperature": 1.0}


def test_collapse_and_a_dwarfing_kl_are_warned_of(curve, curve_net):
    net = pt.bayesian(nn.Linear(1, 1), prior=pt.Gaussian(1.0), seed=0)
    with torch.no_grad():
        net.posterior.mean.zero_()
        net.posterior.rho.fill_(math.log(math.e - 1))  # softplus = 1: the prior itself
    record = pt.fit(net, curve, epochs=1, **STILL).history[-1]
    assert any("collapsed to the prior" in warning for warning in record["warnings"])
    wrong = Dataset(curve.x, -curve.y, "regression")  # what the initial weights are the worst for
    record = pt.fit(curve_net(prior=pt.Gaussian(1e-3)), wrong, epochs=1, **STILL).history[-1]
    assert any("dwarfs the nll" in warning for warning in record["warnings"])
    record = pt.fit(curve_net(), curve, epochs=1, temperature=1e-3).history[-1]
    assert record["warnings"] == []


def test_a_small_nll_beside_the_kl_is_a_success_and_no_warning():
    """Labels that follow from the input: the nll falls far below the KL's term, and below that of a guess."""
    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    labels, line = (x[:, 0] > 0).long(), torch.sin(3 * x)
    turns = torch.arange(40) % 2  # no smooth function of the input
    tasks = [[Dataset(x, y, "classification", 2) for y in (labels, turns)]]
    tasks += [[Dataset(x, y, "regression") for y in (line, 2.0 * turns.unsqueeze(1) - 1)]]

    def warned(temperature, lr, data, outputs):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(1, 128), nn.Tanh(), nn.Linear(128, outputs))
        net = pt.bayesian(module, prior=pt.Gaussian("kaiming"), rho=-8.0, seed=0)
        rates = {"optimizer": "adam", "lr": lr, "lr_sd": lr}
        record = pt.fit(net, data, epochs=60, batch_size=20, temperature=temperature, **rates).history[-1]
        assert record["loss"] - record["nll"] > 10 * abs(record["nll"])
        return record["warnings"]

    for (task, hopeless), outputs in zip(tasks, (2, 1), strict=True):
        assert warned(1.0, 0.05, task, outputs) == []
        (found,) = warned(1.0, 1e-9, hopeless, outputs)
        assert "no better than a constant guess's: try temperature 0.1 or auto" in found
        (found,) = warned(0.5, 1e-9, hopeless, outputs)
        assert "try temperature 0.05 or auto" in found


def test_the_best_constant_answer():
    shares = torch.tensor([0.5, 0.3, 0.2])
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    found = constant_score(Dataset(torch.zeros(10, 1), labels, "classification", 3))
    assert found == pytest.approx(-(shares * shares.log()).sum().item(), rel=1e-6)
    targets = torch.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 4.0]])
    expected = targets.double().var(0, correction=0).mean().item()
    assert constant_score(Dataset(torch.zeros(3, 1), targets, "regression")) == pytest.approx(expected)


def test_diagnostics_are_recorded(curve, curve_net):
    net = curve_net()
    record = pt.fit(net, curve, epochs=1, batch_size=40, optimizer="adam", schedule="constant").history[-1]
    assert set(record["groups"]) == {"mean", "sd"}  # a learnt noise has a closed form, no group
    assert record["noise"] > 0
    assert record["groups"]["mean"]["gradient_norm"] > 0
    low, middle, high = record["groups"]["mean"]["effective_rate"]
    assert 0 < low <= middle <= high
    snr = (net.posterior.mean.abs() / net.posterior.sd).detach()
    expected = torch.quantile(snr, torch.tensor([0.1, 0.5, 0.9])).tolist()
    assert record["snr"] == pytest.approx(expected, rel=1e-4)
    assert math.fsum(record["kl_by_layer"].values()) == pytest.approx(record["kl"], rel=1e-5)


def test_first_adam_step_has_the_effective_rate_of_its_gradient(curve, curve_net):
    """After one step <g^2> = g^2, so that the effective rate is lr / (|g| + eps)."""
    gradients = []

    class Keep(pt.Callback):
        def on_step(self, training, loss):
            gradients.append(training.net.posterior.mean.grad.clone())

    settings = {"optimizer": "adam", "lr": 0.01, "schedule": "constant"}
    result = pt.fit(curve_net(), curve, epochs=1, batch_size=40, callbacks=[Keep()], **settings)
    rates = 0.01 / (gradients[0].abs() + 1e-8)
    expected = torch.quantile(rates, torch.tensor([0.1, 0.5, 0.9])).tolist()
    assert result.history[-1]["groups"]["mean"]["effective_rate"] == pytest.approx(expected, rel=1e-3)


def test_a_rate_of_adam_without_its_name_is_warned_of():
    """The default optimiser of a classifier has other units; a small regression's, and one that is named, have not."""
    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    classes, line = Dataset(x, (x[:, 0] > 0).long(), "classification", 2), Dataset(x, x, "regression")

    def warned(data, **settings):
        outputs = 1 if data.task == "regression" else 2
        net = pt.bayesian(nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, outputs)), seed=0)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            pt.fit(net, data, epochs=1, **settings)
        return [str(each.message) for each in found if each.category is not pt.TrainingWarning]

    (said,) = warned(classes, lr=1e-3)
    assert said.startswith("lr 0.001 is 0.05 times the default of 'muon'")
    assert not warned(classes, lr=1e-3, optimizer="muon")
    assert not warned(classes, lr=1e-3, optimizer="adam")
    assert warned(classes, lr=3e-3)  # the default of Adam itself
    assert not warned(classes, lr=1e-2)
    assert not warned(classes)
    assert not warned(line, lr=1e-3)
