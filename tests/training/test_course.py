"""How temperature and rates run: by rule, balanced, in two descents."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.objectives.balance import balanced
from posterity.training import Settings, Training, descents, plan
from posterity.training.course import BalancedCourse, Course
from posterity.training.descents import HIGH, LOW, MARGIN, Descents
from posterity.training.ending import cross_validated

G = torch.Generator().manual_seed(0)
X = torch.randn(120, 3, generator=G)
REAL = X[:, :1].sin() + 0.3 * torch.randn(120, 1, generator=G)
CLASSES = (X[:, 0] > 0).long()


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Trainings of some steps are long enough."""
    monkeypatch.setattr(descents, "LEAST_STEPS", 9)


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
        (Descents, REAL, {}),
        (BalancedCourse, CLASSES, {}),
        (BalancedCourse, REAL, {"epochs": 2}),
        (BalancedCourse, REAL, {"average": "swa"}),
        (BalancedCourse, REAL, {"tau": 0.2}),
        (BalancedCourse, REAL, {"temperature_warmup": 2.0}),
        (BalancedCourse, REAL, {"schedule": "plateau"}),
        (BalancedCourse, REAL, {"schedule": "constant"}),
        (BalancedCourse, REAL, {"warmup": 0.1}),
        (BalancedCourse, REAL, {"alternate": 1}),
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
        ("0.1 or 0.01, by the data", REAL, {}),
        ("at most 0.05, by the data", CLASSES, {}),
        ("at most 0.05, by the data", CLASSES, {"temperature_warmup": 2.0}),
        ("0.3", CLASSES, {"temperature": 0.3, "temperature_warmup": 2.0}),
    ],
)
def test_it_is_told_before_it_begins(words, y, settings):
    assert training(y, **settings).course.words(6) == words


def test_short_trainings_go_down_once(monkeypatch):
    monkeypatch.undo()
    kinds = [type(training(REAL, epochs=epochs).course) for epochs in (333, 334)]  # of three steps
    assert kinds == [BalancedCourse, Descents]


def test_many_weights_have_no_exact_leverages():
    net = pt.bayesian(nn.Sequential(nn.Linear(3, 400), nn.ReLU(), nn.Linear(400, 1)))
    assert type(plan(net, (X, REAL), None, Settings.of(epochs=6)).course()) is BalancedCourse


def test_balanced_follows_loss_and_kl():
    one = training(CLASSES, epochs=3)
    assert one.temperature_at(0) == 0.05  # min(0.05, 0.05 * 120 / 50)
    steps(one)
    balance = one.course.balance
    assert one.history[-1]["temperature"] == balance.temperature
    assert balance.temperature == min(0.05, balanced(balance.loss, balance.kl, 120))
    assert balance.kl == pytest.approx(one.history[-1]["kl"], rel=0.3)
    assert balance.loss == pytest.approx(one.history[-1]["nll"], rel=0.3)


def test_clean_classes_are_cooler_than_noisy_ones():
    noisy = torch.where(torch.rand(120, generator=torch.Generator().manual_seed(1)) < 0.4, 1 - CLASSES, CLASSES)
    ended = [steps(training(y, epochs=150)).history[-1]["temperature"] for y in (CLASSES, noisy)]
    assert ended[0] < 0.7 * ended[1]


def test_the_loss_of_a_regression_is_what_is_left_of_the_variance():
    one = training(10 * REAL + 5, epochs=2, batch_size=120)
    batch = next(iter(one.batches))
    loss = one.gradient(batch)
    one.course.observe(one, loss, batch, 1.0)
    left = (loss.outputs.detach().mean(0) - batch.y).square().mean() / (10 * REAL).var(correction=0)
    assert one.course.balance.loss == pytest.approx(left.item(), rel=1e-5)
    assert one.course.balance.kl == loss.kl.item()


def test_a_warm_up_ramps_what_follows():
    one = training(CLASSES, epochs=4, temperature_warmup=2.0)
    assert one.temperature_at(0) == 0
    assert one.temperature_at(3) == 0.5 * one.temperature_at(6) > 0


def test_descents_by_hand():
    course = Descents(9)
    assert course.first == 3
    assert [course.temperature(at) for at in (0, 2.9, 3, 8.9)] == [HIGH, HIGH, LOW, LOW] == [0.1, 0.1, 0.01, 0.01]
    assert [course.progress(at / 9) for at in (0, 1.5, 3, 6, 9)] == pytest.approx([0, 0.5, 0, 0.5, 1])


def test_rates_go_down_twice():
    rates = [record["lr"] for record in steps(training(REAL, epochs=9)).history]
    assert rates[0] > rates[1] > rates[2] < rates[3] > rates[4] > rates[8]


@pytest.mark.parametrize(("high", "low", "kept"), [(-1.0, -0.5, LOW), (-1.0, -1.0 + MARGIN / 2, HIGH), (-1, -2, HIGH)])
def test_the_better_end_is_kept(monkeypatch, high, low, kept):
    one = training(REAL)
    found = {HIGH: high, LOW: low}
    monkeypatch.setattr(Descents, "_score", lambda self, training, temperature: found[temperature])
    steps(one, 6)
    first = copy.deepcopy(dict(one.net.posterior.state_dict()))
    steps(one)
    same = torch.equal(first["mean"], one.net.posterior.mean.detach())
    assert same == (kept == HIGH)
    assert one.ending["temperature"] == kept
    assert one.ending["temperatures"] == {"0.1": high, "0.01": low}


def test_scores_are_of_the_ends():
    """What decides is what `end` finds of the weights that are kept, and looking changes nothing."""
    one = steps(training(REAL, epochs=30))
    kept = one.ending["temperature"]
    assert one.ending["cross_validated"] == pytest.approx(one.ending["temperatures"][f"{kept:g}"], rel=1e-6)
    before = copy.deepcopy(one.net.state_dict())
    cross_validated(one.net, one.train, num_data=120, temperature=kept, seed=0)
    assert all(torch.equal(value, one.net.state_dict()[name]) for name, value in before.items())


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


def test_noisy_data_keep_the_high_temperature_and_clean_data_the_low():
    """300 rows of three inputs, one of which says anything; trained at length."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(300, 3, generator=g)
    clean = (x[:, :1] * 2).sin() + x[:, 1:2] * x[:, 2:3]
    noise = torch.randn(300, 1, generator=g)
    kept = []
    for y in (clean + 0.02 * noise, 0.3 * clean + noise):
        torch.manual_seed(0)
        net = pt.bayesian(nn.Sequential(nn.Linear(3, 30), nn.ReLU(), nn.Linear(30, 1)), seed=0)
        kept.append(pt.fit(net, (x, y / y.std()), epochs=500).ending["temperature"])
    assert kept == [LOW, HIGH]
