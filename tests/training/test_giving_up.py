"""A regression whose network gives up while it is cold begins again, colder."""

from __future__ import annotations

import pytest
import torch
from test_course import REAL, training
from torch import nn

import posterity as pt
from posterity.training import warming
from posterity.training.left_out import LeftOut
from posterity.training.warming import COLD, COLDER, FROM, GIVEN_UP, IDLE


def weights_of(one):
    return [p.detach().clone() for p in one.net.posterior.parameters()]


def looked_at(monkeypatch, *, leverage, noise):
    """A training of 100 steps whose looks find these; what is trained after each step."""
    spread = REAL.std(correction=0)
    monkeypatch.setattr(warming, "look", lambda *a, **b: LeftOut(leverage, noise * spread.double().view(1), -1.0))
    one, after = training(REAL, epochs=34), []
    while len(after) < 60:
        for batch in one.batches:
            one.train_step(batch)
            after.append((one.course.cold, weights_of(one)))
        one.end_epoch()
    return one, after


def test_what_has_given_up_begins_again_twice(monkeypatch):
    one, after = looked_at(monkeypatch, leverage=0.5 * IDLE, noise=1.0)
    colds = [cold for cold, _ in after]
    assert sorted(set(colds)) == pytest.approx([COLD * COLDER**2, COLD * COLDER, COLD])
    changes = [at for at in range(1, len(colds)) if colds[at] < colds[at - 1]]
    shares = [(at + 1) / one.total_steps for at in changes]
    assert FROM / 2 <= shares[0] < FROM / 2 + 0.04
    assert FROM <= shares[1] < FROM + 0.04
    for at in changes:  # the weights after the first step
        assert all(torch.equal(a, b) for a, b in zip(after[at][1], after[0][1], strict=True))
    assert one.course.first == []


@pytest.mark.parametrize(("leverage", "noise"), [(1.1 * IDLE, 1.0), (0.5 * IDLE, 0.9 * GIVEN_UP)])
def test_what_follows_its_rows_or_fits_them_goes_on(leverage, noise, monkeypatch):
    one, after = looked_at(monkeypatch, leverage=leverage, noise=noise)
    assert {cold for cold, _ in after} == {COLD}
    assert one.course.first == []


def test_a_fast_sine_is_learnt():
    """Three periods, 120 rows: at 0.01 its units are given up."""
    g = torch.Generator().manual_seed(700)  # of its own, whatever tests were before
    t = 10 * torch.rand(1120, 1, generator=g)
    y = (2 * t).sin() + 0.2 * torch.randn(1120, 1, generator=g)
    x, y = (t - 5) / 2.9, y / y.std()
    torch.manual_seed(0)
    layers = [nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)]
    net = pt.bayesian(nn.Sequential(*layers), seed=0)
    result = pt.fit(net, (x[:120], y[:120]), epochs=2000, seed=0)
    assert min(record["temperature"] for record in result.history) < 0.2 * COLD
    assert (net.predict(x[120:], seed=0).mean - y[120:]).square().mean().sqrt() < 0.5
