from itertools import pairwise
from random import Random

import pytest
import torch

from posterity.core.errors import UnknownNameError, UsageError
from posterity.optim import SCHEDULES, build_schedule
from posterity.optim.schedules import Constant, Cosine, Cyclic, OneCycle, Plateau, Polynomial, Step


def test_constant():
    assert [Constant().factor(t) for t in (0, 0.5, 1)] == [1, 1, 1]


def test_cosine():
    assert [Cosine().factor(t) for t in (0, 1 / 3, 0.5, 1)] == pytest.approx([1, 0.75, 0.5, 0])
    assert [Cosine(floor=0.2).factor(t) for t in (0, 0.5, 1)] == pytest.approx([1, 0.6, 0.2])


def test_step():
    assert [Step().factor(t) for t in (0, 0.499, 0.5, 0.74, 0.75, 1)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert Step(milestones=(0.5,), drop=0.5).factor(0.5) == 0.5
    assert Step(milestones=()).factor(1) == 1


def test_cyclic():
    two = Cyclic(cycles=2, floor=0.2)
    assert [two.factor(t) for t in (0, 0.125, 0.25, 0.5, 0.75)] == pytest.approx([0.2, 0.6, 1, 0.2, 1])
    restarts = Cyclic(cycles=2, shape="cosine")
    assert [restarts.factor(t) for t in (0, 0.25, 0.4999, 0.5)] == pytest.approx([1, 0.5, 0, 1], abs=1e-3)


def test_one_cycle():
    cycle = OneCycle(peak=0.25, start=0.1, end=0.01)
    expected = [0.1, 0.55, 1, 0.505, 0.01]
    assert [cycle.factor(t) for t in (0, 0.125, 0.25, 0.625, 1)] == pytest.approx(expected)


def test_plateau():
    plateau = Plateau(patience=1, drop=0.5, floor=0.2)
    factors = []
    for value in (1.0, 1.0, 0.9, 0.95, 0.92, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9):
        plateau.observe({"nll": value})
        factors.append(plateau.factor(0.5))
    assert factors == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]


@pytest.mark.parametrize("sign", [1, -1])
def test_plateau_wants_a_relative_improvement(sign):
    plateau = Plateau(patience=0, threshold=0.1)
    plateau.observe({"nll": sign * 10.0})
    plateau.observe({"nll": sign * 10.0 - 0.9})
    assert plateau.factor(0) == 0.5
    plateau.observe({"nll": sign * 10.0 - 1.1})
    assert plateau.factor(0) == 0.5
    assert plateau.best == sign * 10.0 - 1.1


def test_plateau_survives_a_checkpoint():
    one = Plateau(patience=1)
    for value in (1.0, 2.0, 2.0, 2.0):
        one.observe({"nll": value})
    other = Plateau(patience=1)
    other.restore(one.state())
    for schedule in (one, other):
        schedule.observe({"nll": 2.0})
    assert one.factor(0) == other.factor(0) == 0.25
    assert one.state() == other.state()


@pytest.mark.parametrize("patience", [0, 1, 3, 10])
@pytest.mark.parametrize(("drop", "floor"), [(0.5, 1e-3), (0.1, 0.0), (0.8, 0.3)])
@pytest.mark.parametrize("threshold", [1e-4, 0.05])
def test_plateau_is_pytorchs(patience, drop, floor, threshold):
    for seed in range(5):
        random = Random(seed)
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=drop, patience=patience, threshold=threshold, min_lr=floor, eps=0.0
        )
        ours = Plateau(patience=patience, drop=drop, floor=floor, threshold=threshold)
        value = 5.0
        for _ in range(120):
            value *= 1 + 0.1 * (random.random() - 0.55)
            seen = float("nan") if random.random() < 0.02 else value + 0.1 * random.random()
            theirs.step(seen)
            ours.observe({"nll": seen})
            assert ours.factor(0.5) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)


def test_plateau_of_an_unknown_metric():
    with pytest.raises(UnknownNameError, match="Did you mean 'val_nll'"):
        Plateau(metric="val_nl").observe({"val_nll": 1.0, "epoch": 1})


def test_warm_up():
    ramp = build_schedule("cosine", warmup=0.2)
    assert [ramp.factor(t) for t in (0, 0.1, 0.2, 0.6, 1)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    low = build_schedule("one-cycle", warmup=0.5, start=0.1)
    assert [low.factor(t) for t in (0.25, 0.5)] == pytest.approx([0.05, 0.1])
    slow = build_schedule("plateau", warmup=0.5, patience=0)
    for value in (1.0, 1.0):
        slow.observe({"nll": value})
    assert slow.factor(0.6) == 0.5
    again = build_schedule("plateau", warmup=0.5, patience=0)
    again.restore(slow.state())
    assert again.factor(0.6) == 0.5


@pytest.mark.parametrize("warmup", [0.0, 0.1])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_factor_is_between_0_and_1_and_1_is_reached(name, warmup):
    factors = [build_schedule(name, warmup=warmup).factor(t / 1000) for t in range(1001)]
    assert all(0 <= f <= 1 for f in factors)
    assert max(factors) == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("name", ["constant", "cosine", "step"])
def test_these_start_at_the_base_rate_and_never_grow(name):
    factors = [build_schedule(name).factor(t / 100) for t in range(101)]
    assert factors[0] == 1
    assert all(later <= earlier for earlier, later in pairwise(factors))


def test_by_name():
    assert build_schedule("cosine", floor=0.1) == Cosine(0.1)
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        build_schedule("cosin")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cosine", {"ceiling": 1}),
        ("cyclic", {"cycles": 0}),
        ("cyclic", {"shape": "square"}),
        ("one-cycle", {"peak": 1.0}),
        ("one-cycle", {"peak": 0.0}),
        ("constant", {"warmup": 1.0}),
        ("constant", {"warmup": -0.1}),
    ],
)
def test_wrong_options(name, options):
    with pytest.raises(UsageError):
        build_schedule(name, **options)


def test_polynomial():
    assert [Polynomial().factor(t) for t in (0, 1)] == pytest.approx([1, 10**-0.55])
    assert Polynomial(stretch=3, power=1).factor(0.5) == pytest.approx(0.4)
    with pytest.raises(UsageError, match="falls"):
        Polynomial(power=-1)


def test_by_epoch_is_the_factor_at_the_epochs_beginning():
    epochs, steps = 7, 9
    schedule = build_schedule("cosine", by="epoch", epochs=epochs, floor=0.1)
    smooth = build_schedule("cosine", floor=0.1)
    for step in range(epochs * steps):
        assert schedule.factor(step / (epochs * steps)) == smooth.factor(step // steps / epochs)
    with pytest.raises(UsageError, match="number of epochs"):
        build_schedule("cosine", by="epoch")


def test_by_epoch_keeps_the_state_of_a_plateau():
    schedule = build_schedule("plateau", by="epoch", epochs=3, patience=0, warmup=0.2)
    for _ in range(2):
        schedule.observe({"nll": 1.0})
    other = build_schedule("plateau", by="epoch", epochs=3, patience=0, warmup=0.2)
    other.restore(schedule.state())
    assert other.factor(0.9) == schedule.factor(0.9) == 0.5
