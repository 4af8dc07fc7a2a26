"""Warming: cold at first, then by what data left out would show (training.warming)."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from courses import CLASSES, REAL, X, steps, training
from torch import nn

import posterity as pt
from posterity.training import Settings, Training, plan, warming
from posterity.training.left_out import LeftOut
from posterity.training.warming import (
    COLD,
    FROM,
    MILD,
    NEAR,
    REACH,
    TO,
    WARMEST,
    Warming,
    choice,
    error,
    falls,
    smoothed,
)


def test_warming_is_cold_at_first_and_rises_to_bayes_rule():
    course = Warming(10, weights_per_datum=1.0)
    assert [course.temperature(10 * at) for at in (0, FROM, TO, 1)] == pytest.approx([COLD, COLD, WARMEST, WARMEST])
    assert course.temperature(5 * (FROM + TO)) == pytest.approx(math.sqrt(COLD * WARMEST))
    course.chosen = 0.3
    assert [course.temperature(at) for at in (0, 5, 10)] == [0.3] * 3


def test_with_many_data_for_a_weight_warming_begins_colder():
    assert Warming(10, weights_per_datum=1 / 4).cold == COLD
    assert Warming(10, weights_per_datum=1 / 40).cold == pytest.approx(COLD / 10)
    rich = Warming(10, weights_per_datum=1 / 40)
    assert [rich.temperature(10 * at) for at in (0, FROM, TO, 1)] == pytest.approx([COLD / 10] * 2 + [MILD] * 2)
    assert rich.words(10) == "0.001 at first, up to 0.1"


def test_means_and_error_of_looks_by_hand():
    assert REACH == 2
    assert smoothed([0.0, 3.0, 6.0, 0.0, 0.0, 10.0]) == pytest.approx([3.0, 9 / 4, 9 / 5, 19 / 5, 4.0, 10 / 3])
    assert error([0.0, 1.0]) == 0.0
    assert error([1.0, 2.0, 3.0, 4.0]) == 0.0  # a straight line is smooth
    g = torch.Generator().manual_seed(0)
    noise = (0.07 * torch.randn(4000, generator=g)).tolist()
    assert error([0.001 * at + each for at, each in enumerate(noise)]) == pytest.approx(0.07, rel=0.05)


def hill(count, top, height=0.0, fall=0.05):
    """Densities of looks that rise by `fall` a look up to `top` and fall after it."""
    return [height - fall * abs(at - top) for at in range(count)]


def test_densities_that_fall_are_past_their_best():
    assert not falls(hill(10, 20))  # rising
    assert not falls(hill(4, 0))  # too few
    assert falls(hill(12, 6))
    assert not falls(hill(9, 6))  # the means that have all their looks do not show it yet
    shaken = [each + 0.2 * (-1) ** at for at, each in enumerate(hill(12, 6))]
    assert not falls(shaken)  # by less than chance
    assert not falls([0.0] * 8)
    assert falls([*hill(6, 5), *[-0.01] * 15])  # it has not risen for long
    assert not falls([*hill(6, 5), *[-0.01] * 8])


def test_the_coldest_that_is_near_to_the_best_is_chosen():
    flat = [-1.0, -0.5, *[-0.02] * 6, *[0.0] * 6, -0.5, -1.0]
    means = smoothed(flat)
    assert choice(flat, 0.05) == next(at for at, mean in enumerate(means) if mean >= max(means) - 0.05) == 4
    assert choice(flat, 0.0) == means.index(max(means)) == 10


def steps_with(one, monkeypatch, leverage, density):
    """Go through a training whose looks find these functions of the temperature."""
    looks = []

    def found(weights, net, train, *, num_data, temperature, seed):
        looks.append((temperature, [p.detach().clone() for p in net.posterior.parameters()], weights.clone()))
        return LeftOut(leverage(temperature), torch.full((1,), 0.1), density(temperature))

    monkeypatch.setattr(warming, "look", found)
    return steps(one), looks


def near(one):
    """How far in log T the choice may be below the best, for a density of -(log T - log best)^2."""
    return math.sqrt(NEAR / math.sqrt(one.num_data)) + 0.3


@pytest.mark.parametrize("best", [0.05, 0.2])
def test_it_stays_where_left_out_data_have_the_highest_density(best, monkeypatch):
    one, looks = steps_with(
        training(REAL, epochs=60), monkeypatch, lambda t: 0.3, lambda t: -((math.log(t) - math.log(best)) ** 2)
    )
    assert one.course.chosen == one.ending["temperature"] == one.history[-1]["temperature"]
    assert math.log(best) - near(one) < math.log(one.course.chosen) <= math.log(best) + 0.1
    assert one.course.chosen in [temperature for temperature, *_ in looks]
    assert max(temperature for temperature, *_ in looks) < WARMEST  # it went no further than was needed
    assert one.course.kept == one.course.densities == []


def test_what_follows_its_rows_is_no_judge(monkeypatch):
    """Leverages above a half up to T = 0.3: the highest density, at first, does not count."""
    one, _ = steps_with(
        training(REAL, epochs=60), monkeypatch, lambda t: 0.9 if t < 0.3 else 0.1, lambda t: -math.log(t)
    )
    assert 0.3 <= one.course.chosen < 0.4


def test_where_all_follow_their_rows_it_ends_at_bayes_rule(monkeypatch):
    one, _ = steps_with(training(REAL, epochs=30), monkeypatch, lambda t: 0.9, lambda t: 0.0)
    assert one.course.chosen == WARMEST


@pytest.mark.parametrize("alternate", [None, 2])
def test_weights_are_put_back_to_what_they_were_there(alternate, monkeypatch):
    """But where groups stand still in their turn."""
    one = training(REAL, epochs=40, batch_size=120, alternate=alternate)
    before, looks = [], []

    def choose(training):
        before.extend(p.detach().clone() for p in training.net.posterior.parameters())
        Warming._choose(training.course, training)
        after = [p.detach() for p in training.net.posterior.parameters()]
        if alternate:
            assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
            return
        own, mean = next((own, mean) for t, own, mean in looks if t == training.course.chosen)
        assert torch.equal(after[0], mean)  # of q's means since the look before
        assert torch.equal(after[1], own[1])
        assert not torch.equal(after[1], before[1])

    def found(weights, net, train, *, num_data, temperature, seed):
        looks.append((temperature, [p.detach().clone() for p in net.posterior.parameters()], weights.clone()))
        return LeftOut(0.1, torch.full((1,), 0.1), -((math.log(temperature) - math.log(0.05)) ** 2))

    monkeypatch.setattr(one.course, "_choose", choose)
    monkeypatch.setattr(warming, "look", found)
    steps(one)
    assert before


def test_with_many_data_for_a_weight_nothing_is_looked_at(monkeypatch):
    def never(*given, **settings):
        raise AssertionError

    monkeypatch.setattr(warming, "look", never)
    net = pt.bayesian(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)), seed=0)
    one = Training(net, plan(net, (X.repeat(20, 1), REAL.repeat(20, 1)), None, Settings.of(epochs=5, batch_size=600)))
    assert steps(one).ending["temperature"] == MILD


def test_the_noise_does_not_fall_below_that_of_the_last_look(monkeypatch):
    one, _ = steps_with(training(REAL, epochs=40), monkeypatch, lambda t: 0.1, lambda t: 0.0)
    assert one.course.floor.item() == pytest.approx(0.1)
    own = training(REAL, epochs=2)
    own.course.floor = torch.tensor([7.0]).double()
    own.train_step(next(iter(own.batches)))
    assert own.likelihood.learnt()["noise"] == pytest.approx(7.0)


def test_a_look_is_at_the_mean_of_the_means_since_the_last(monkeypatch):
    one = training(REAL, epochs=200)
    assert one.total_steps // 100 == 6
    own, given = [], []

    def found(weights, net, train, **settings):
        given.append(weights.clone())
        return LeftOut(0.1, torch.full((1,), 0.1), 0.0)

    monkeypatch.setattr(warming, "look", found)
    while len(given) < 2:
        for batch in one.batches:
            one.train_step(batch)
            own.append(one.net.posterior.mean.detach().clone())
    assert len(own) >= 24
    for number in range(2):
        torch.testing.assert_close(given[number], torch.stack(own[12 * number : 12 * number + 12]).mean(0))


def test_rows_are_not_learnt_by_heart():
    """Two to three weights for each row, noise of half the variance: it shows in the intervals of new data."""
    g = torch.Generator().manual_seed(5)
    x, new = torch.randn(100, 5, generator=g), torch.randn(2000, 5, generator=g)
    y, truth = (each[:, :1] + torch.randn(len(each), 1, generator=g) for each in (x, new))
    torch.manual_seed(0)
    net = pt.bayesian(nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 1)), seed=0)
    ending = pt.fit(net, (x, y), epochs=1000, seed=0).ending
    assert 0.7 < ending["noise"] < 1.4
    assert ending["leverage"] < 0.5
    low, high = net.predict(new).interval(0.9)
    assert 0.8 < ((low < truth) & (truth < high)).float().mean() < 0.97


def test_units_that_begin_cold_are_not_given_up(monkeypatch):
    """The header's reason: the same end, but more of the variance explained than where it was warm all the time."""
    y, left = (3 * X[:, :1]).sin(), []
    for cold in (COLD, 0.5):
        monkeypatch.setattr(warming, "COLD", cold)
        monkeypatch.setattr(warming, "WARMEST", 0.5)
        one, _ = steps_with(training(y, epochs=150), monkeypatch, lambda t: 0.1, lambda t: t)
        left.append((one.net.predict(X).mean - y).square().mean() / y.var())
    assert left[0] < 0.8 * left[1]


@pytest.mark.parametrize(("y", "at"), [(REAL, 4), (REAL, 6), (REAL, 11), (REAL, 15), (CLASSES, 5)])
def test_resumed_anywhere_it_is_the_same(y, at):
    whole, part, rest = training(y), training(y), training(y)
    steps(part, at)
    rest.restore(copy.deepcopy(part.state()))
    steps(whole)
    steps(rest)
    assert all(torch.equal(value, rest.net.state_dict()[name]) for name, value in whole.net.state_dict().items())
    assert whole.ending == rest.ending


@pytest.mark.parametrize("y", [REAL, CLASSES])
def test_resumed_from_a_folder_it_is_the_same(tmp_path, y):
    """Interrupted after each epoch in turn."""

    class Stop(pt.Callback):
        kept = False

        def on_epoch(self, training, record):
            raise KeyboardInterrupt

    def net():
        torch.manual_seed(0)
        return pt.bayesian(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1 if y is REAL else 2)), seed=0)

    given = {"epochs": 4, "batch_size": 40, "checkpoint_seconds": 0.0}
    whole = pt.fit(net(), (X, y), **given)
    for part in range(4):
        with pytest.raises(KeyboardInterrupt):
            pt.fit(net(), (X, y), out=tmp_path / "run", resume=part > 0, callbacks=[Stop()], **given)
    rest = pt.fit(net(), (X, y), out=tmp_path / "run", resume=True, **given)
    assert all(torch.equal(value, rest.net.state_dict()[name]) for name, value in whole.net.state_dict().items())
    assert whole.ending == rest.ending
