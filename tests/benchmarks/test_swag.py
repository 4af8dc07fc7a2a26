"""SWAG's moments, schedule, samples and batch-norm statistics, by hand."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

import defaults_swag
from defaults_baselines import Cell
from defaults_swag import LAST, SNAPSHOTS, Swag, due, put, renew, schedule, weights_of
from defaults_tasks import TASKS
from defaults_training import stored_as


def of(*snapshots, rank=SNAPSHOTS):
    moments = Swag(rank)
    for snapshot in snapshots:
        moments.collect(torch.tensor(snapshot))
    return moments


def test_the_moments_by_hand():
    moments = of([1.0, 0.0], [3.0, 2.0], [5.0, -2.0], rank=2)
    assert moments.mean.tolist() == [3.0, 0.0]
    torch.testing.assert_close(moments.square, torch.tensor([35 / 3, 8 / 3]))
    # From the means 2, 1 and 3, 0 that these snapshots made; the first is forgotten.
    assert [each.tolist() for each in moments.deviations] == [[1.0, 1.0], [2.0, -2.0]]


def test_samples_have_half_of_each_covariance():
    moments = of([1.0, 0.0], [3.0, 2.0], [5.0, -2.0], rank=2)
    noise = torch.Generator().manual_seed(0)
    drawn = torch.stack([moments.sample(noise) for _ in range(4000)])
    low_rank = torch.stack(list(moments.deviations))
    expected = (torch.diag(moments.square - moments.mean.square()) + low_rank.T @ low_rank / (2 - 1)) / 2
    torch.testing.assert_close(drawn.mean(0), moments.mean, atol=0.1, rtol=0)
    torch.testing.assert_close(drawn.T.cov(), expected, atol=0.25, rtol=0)


def test_equal_snapshots_give_the_mean():
    moments = of(*[[0.1, -0.7]] * 5)
    torch.testing.assert_close(moments.sample(torch.Generator().manual_seed(0)), moments.mean, atol=1e-3, rtol=0)


def test_a_single_snapshot_is_its_own_sample():
    assert of([1.0, 2.0]).sample(torch.Generator()).tolist() == [1.0, 2.0]


def test_the_rate_is_constant_falls_and_is_constant():
    found = [schedule(done, 200) for done in (0, 50, 70, 90, 100, 199)]
    assert found == pytest.approx([1.0, 1.0, (1 + LAST) / 2, LAST, LAST, LAST])


@pytest.mark.parametrize("total", [40, 75, 4800, 1500])
def test_snapshots_are_even_and_the_last_is_the_end(total):
    taken = [done for done in range(1, total + 1) if due(done, total)]
    assert len(taken) == min(SNAPSHOTS, total - total // 2)
    assert taken[0] > total // 2
    assert taken[-1] == total
    gaps = {later - earlier for earlier, later in itertools.pairwise(taken)}
    assert max(gaps) - min(gaps) <= 1


def test_weights_are_put_back_in_their_order():
    model = stored_as(nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 2)), torch.channels_last)
    x = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    before, weights = model(x), weights_of(model)
    put(model, torch.zeros_like(weights))
    assert model(x).abs().max() == 0
    put(model, weights)
    torch.testing.assert_close(model(x), before)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_statistics_are_averages_over_batches(monkeypatch):
    monkeypatch.setattr(defaults_swag, "BATCH", 4)
    x = torch.randn(12, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1
    model = nn.Sequential(nn.BatchNorm2d(2))
    model(x + 100)  # statistics of other weights
    renew(model, x)
    parts = [part.transpose(0, 1).flatten(1) for part in x.split(4)]
    torch.testing.assert_close(model[0].running_mean, torch.stack([part.mean(1) for part in parts]).mean(0))
    torch.testing.assert_close(model[0].running_var, torch.stack([part.var(1) for part in parts]).mean(0))
    assert not model.training


def test_a_network_is_trained_and_its_samples_differ(tmp_path):
    task = dataclasses.replace(TASKS["digits-lenet5"], epochs=6)
    cell = Cell(task, 0, 6, tmp_path)
    model, states, seconds = defaults_swag.trained(cell, 0.1, cell.problem.train)
    assert len(states) == defaults_swag.SAMPLES
    assert seconds > 0
    drawn = torch.stack([state["0.weight"] for state in states])
    assert drawn.std(0).max() > 0
    prediction = defaults_swag.mixture(model, states, cell.problem.x)
    torch.testing.assert_close(prediction.mean.sum(-1), torch.ones(len(cell.problem.x)))
    assert (prediction.mean.argmax(-1) == cell.problem.y).double().mean() > 0.3  # a guess has 0.1
