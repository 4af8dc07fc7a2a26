"""How the temperature runs: by rule, balanced, warming."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.objectives.balance import balanced
from posterity.training import Settings, Training, plan, warming
from posterity.training.course import BalancedCourse, Course
from posterity.training.warming import COLD, LEAST, MOST, Warming, warmth

G = torch.Generator().manual_seed(0)
X = torch.randn(120, 3, generator=G)
REAL = X[:, :1].sin() + 0.3 * torch.randn(120, 1, generator=G)
CLASSES = (X[:, 0] > 0).long()


def training(y, *, outputs=None, posterior="mean_field", likelihood=None, **settings):
    outputs = outputs or (1 if y.is_floating_point() else 2)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs))
    torch.manual_seed(0)
    net = pt.bayesian(model, posterior=posterior, seed=0)
    given = {"epochs": 6, "batch_size": 40, **settings}
    return Training(net, plan(net, (X, y), None, Settings.of(**given), likelihood=likelihood))


def steps(one, count=math.inf):
    """Go on for `count` steps, or to the end."""
    while not one.stopped and count > 0:
        for batch in one.batches:
            one.train_step(batch)
            count -= 1
            if count <= 0 and one.batches.position < one.batches.num_batches:
                return one
        one.end_epoch()
    return one


@pytest.mark.parametrize(
    ("kind", "y", "settings"),
    [
        (Warming, REAL, {}),
        (Warming, REAL, {"average": "swa", "schedule": "constant"}),
        (BalancedCourse, CLASSES, {}),
        (BalancedCourse, REAL, {"tau": 0.2}),
        (BalancedCourse, REAL, {"temperature_warmup": 2.0}),
        (BalancedCourse, REAL, {"likelihood": pt.GaussianNoise(0.3)}),
        (Course, REAL, {"temperature": 0.1}),
        (Course, CLASSES, {"temperature": "per-weight"}),
        (Course, CLASSES, {"optimizer": "ivon"}),
        (Course, CLASSES, {"posterior": "point"}),
    ],
)
def test_which_course_a_training_takes(kind, y, settings):
    assert type(training(y, **settings).course) is kind


@pytest.mark.parametrize(
    ("words", "y", "settings"),
    [
        ("0.01 at first, up to 0.5 in the end, by the data", REAL, {}),
        ("from 0 up to at most 0.09, by the data", CLASSES, {}),
        ("from 0 up to at most 0.09, by the data", CLASSES, {"temperature_warmup": 2.0}),
        ("0.3", CLASSES, {"temperature": 0.3, "temperature_warmup": 2.0}),
    ],
)
def test_it_is_told_before_it_begins(words, y, settings):
    assert training(y, **settings).course.words(6) == words


def test_many_weights_have_no_exact_leverages():
    net = pt.bayesian(nn.Sequential(nn.Linear(3, 400), nn.ReLU(), nn.Linear(400, 1)))
    assert type(plan(net, (X, REAL), None, Settings.of(epochs=6)).course()) is BalancedCourse


def test_balanced_follows_loss_and_kl():
    one = training(CLASSES, epochs=3)
    assert [one.temperature_at(step) for step in (0, 3, 9)] == [0.0, 0.06, 0.09]  # 1.5 min(0.06, 0.06 * 120 / 50)
    steps(one)
    balance = one.course.balance
    assert one.history[-1]["temperature"] == balance.temperature
    assert balance.temperature == min(0.09, max(0.06 / 6, balanced(balance.loss, balance.kl, 120)))
    assert balance.kl == pytest.approx(one.history[-1]["kl"], rel=0.3)
    assert balance.loss == pytest.approx(one.history[-1]["nll"], rel=0.3)


@pytest.mark.parametrize(("epochs", "settings", "shares"), [
    (4, {}, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]),  # by half of the training
    (8, {}, [0.0, 0.125, 0.25, 0.375, 0.5, 1.0]),
    (8, {"temperature_warmup": 1.0}, [0.0, 0.5, 1.0, 1.0, 1.0, 1.0]),  # one that was asked for
])  # fmt: skip
def test_balanced_begins_cold(epochs, settings, shares):
    one = training(CLASSES, epochs=epochs, **settings)
    at = [one.course.temperature(done) for done in (0.0, 0.5, 1.0, 1.5, 2.0, float(epochs))]
    assert at == pytest.approx([0.09 * share for share in shares])


def test_clean_classes_are_cooler_than_noisy_ones():
    noisy = torch.where(torch.rand(120, generator=torch.Generator().manual_seed(1)) < 0.4, 1 - CLASSES, CLASSES)
    ended = [steps(training(y, epochs=150)).history[-1]["temperature"] for y in (CLASSES, noisy)]
    assert ended[0] < 0.7 * ended[1]


def test_the_loss_of_a_regression_is_what_is_left_of_the_variance():
    one = training(10 * REAL + 5, epochs=2, batch_size=120, tau=0.1)
    batch = next(iter(one.batches))
    loss = one.gradient(batch)
    one.course.observe(one, loss, one.likelihood.predict(loss.outputs.detach()), batch, 1.0)
    left = (loss.outputs.detach().mean(0) - batch.y).square().mean() / (10 * REAL).var(correction=0)
    assert one.course.balance.loss == pytest.approx(left.item(), rel=1e-5)
    assert one.course.balance.kl == loss.kl.item()


def test_a_warm_up_ramps_what_follows():
    one = training(CLASSES, epochs=4, temperature_warmup=2.0)
    assert one.temperature_at(0) == 0
    assert one.temperature_at(3) == 0.5 * one.temperature_at(6) > 0


def test_warmth_by_hand():
    assert warmth(0.125, 81 / 16 * 0.5 ** (8 / 3)) == pytest.approx(0.35 * 0.5 * (3 / 2) ** 3 * 0.25)
    assert warmth(0.0, 1.0) == LEAST
    assert warmth(1.0, 100.0) == MOST


def test_warming_is_cold_at_first_and_warm_in_the_end():
    course = Warming(10, weights_per_datum=1.0)
    assert course.temperature(9.0) == COLD  # nothing is known yet
    course.left = 0.125
    assert [course.temperature(at) for at in (0, 3, 7, 10)] == pytest.approx([COLD, COLD, 0.175, 0.175])
    assert course.temperature(5) == pytest.approx(math.sqrt(COLD * 0.175))


def test_with_many_data_for_a_weight_warming_begins_colder():
    assert Warming(10, weights_per_datum=1 / 4).cold == COLD
    assert Warming(10, weights_per_datum=1 / 40).cold == pytest.approx(COLD / 10)
    assert Warming(10, weights_per_datum=1 / 40).temperature(3) == pytest.approx(COLD / 10)


def test_warming_averages_what_is_left_of_the_variance():
    one = training(10 * REAL + 5, epochs=2, batch_size=120)
    batch = next(iter(one.batches))
    loss = one.gradient(batch)
    prediction = one.likelihood.predict(loss.outputs.detach())
    left = ((prediction.mean - batch.y).square().mean() / (10 * REAL).var(correction=0)).item()
    one.course.observe(one, loss, prediction, batch, 1.0)
    assert one.course.left == pytest.approx(left, rel=1e-5)
    prediction = one.likelihood.predict(batch.y[None])
    one.course.observe(one, loss, prediction, batch, 0.25)
    assert one.course.left == pytest.approx(0.75 * left, rel=1e-5)


def test_a_warming_training_ends_at_the_temperature_that_its_history_has():
    one = steps(training(REAL, epochs=20))
    temperatures = [record["temperature"] for record in one.history]
    assert temperatures[:6] == [COLD] * 6
    assert temperatures[-1] == one.ending["temperature"] == warmth(one.course.left, one.net.num_weights / 120)
    assert temperatures[-1] > 2 * COLD


def test_noisy_targets_end_warmer():
    noise = torch.randn(120, 1, generator=torch.Generator().manual_seed(1))
    ended = [steps(training(y, epochs=60)).ending["temperature"] for y in (X[:, :1], X[:, :1] + noise)]
    assert ended[0] == LEAST < 0.9 * ended[1]


def test_units_that_begin_cold_are_not_given_up(monkeypatch):
    """The header's reason: the same end, but more of the variance explained than where it was warm all the time."""
    y = (3 * X[:, :1]).sin()
    left = []
    for cold in (COLD, MOST):
        monkeypatch.setattr(warming, "COLD", cold)
        monkeypatch.setattr(warming, "warmth", lambda left, ratio: MOST)
        left.append(steps(training(y, epochs=150)).course.left)
    assert left[0] < 0.8 * left[1]


@pytest.mark.parametrize(("y", "at"), [(REAL, 4), (REAL, 6), (REAL, 11), (CLASSES, 5)])
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
