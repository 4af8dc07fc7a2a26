"""How the temperature runs: by rule, balanced; warming has tests of its own."""

from __future__ import annotations

import pytest
import torch
from courses import CLASSES, REAL, X, steps, training
from torch import nn

import posterity as pt
from posterity.objectives.balance import balanced
from posterity.training import Settings, plan
from posterity.training.course import BalancedCourse, Course
from posterity.training.warming import Warming


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
        ("0.01 at first, up to 1 at most, by what data left out would show", REAL, {}),
        ("from 0 up to at most 0.09, by the data", CLASSES, {}),
        ("from 0 up to at most 0.09, by the data", CLASSES, {"temperature_warmup": 2.0}),
        ("0.3", CLASSES, {"temperature": 0.3, "temperature_warmup": 2.0}),
    ],
)
def test_it_is_told_before_it_begins(words, y, settings):
    assert training(y, **settings).course.words(6) == words


def test_many_weights_and_many_rows_have_no_exact_leverages():
    def course_of(width, rows):
        net = pt.bayesian(nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 1)))
        data = (X.repeat(20, 1)[:rows], REAL.repeat(20, 1)[:rows])
        return type(plan(net, data, None, Settings.of(epochs=6)).course())

    assert [course_of(8, 2400), course_of(400, 120), course_of(400, 2400)] == [Warming, Warming, BalancedCourse]


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
    one.course.observe(one, loss, one.likelihood.predict(loss.outputs.detach()).mean, batch, 1.0)
    left = (loss.outputs.detach().mean(0) - batch.y).square().mean() / (10 * REAL).var(correction=0)
    assert one.course.balance.loss == pytest.approx(left.item(), rel=1e-5)
    assert one.course.balance.kl == loss.kl.item()


def test_a_warm_up_ramps_what_follows():
    one = training(CLASSES, epochs=4, temperature_warmup=2.0)
    assert one.temperature_at(0) == 0
    assert one.temperature_at(3) == 0.5 * one.temperature_at(6) > 0
