"""Averages as `fit` makes them: when snapshots are taken, what comes of them, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.posteriors import LowRank, MeanField

BATCH = 20  # 60 rows: 3 steps an epoch


class Watch(pt.Callback):
    """Keeps the means and sds after every step, before and (`begins`) after the average has looked at them."""

    def __init__(self):
        self.means, self.sds, self.begins = {}, {}, {}

    def on_step(self, training, loss):
        self.begins[training.step] = training.net.posterior.mean.detach().double().numpy().copy()

    def on_step_end(self, training):
        self.means[training.step] = training.net.posterior.mean.detach().double().numpy().copy()
        self.sds[training.step] = training.net.posterior.sd.detach().double().numpy().copy()


@pytest.fixture
def go(make_net, small, small_val):
    def run(val=None, net=None, callbacks=(), **settings):
        watch = Watch()
        options = {"epochs": 4, "batch_size": BATCH, "lr": 0.02, **settings}
        result = pt.fit(net or make_net(), small, val and small_val, callbacks=[watch, *callbacks], **options)
        return result, watch

    return run


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [9, 12]),  # an epoch's steps; those after the half
        ({"average_every": 2}, [8, 10, 12]),
        ({"average_every": 5, "average_start": 0}, [5, 10]),
        ({"average_every": 1, "average_start": 0.7}, [9, 10, 11, 12]),
        ({"average_every": 4, "average_start": 0.9}, [12]),
        ({"average_every": 2, "schedule": "cyclic"}, [8, 10, 12]),
    ],
)
def test_snapshots_are_taken_when_it_is_time(go, settings, steps):
    for average in ("swa", "hwa"):
        result, watch = go(average=average, **settings)
        means = np.stack([watch.means[k] for k in steps])
        q = result.averaged.posterior
        np.testing.assert_allclose(q.mean.detach().numpy(), means.mean(0), rtol=1e-5, atol=1e-7)
        if average == "hwa":
            variance = means.var(0) + np.stack([watch.sds[k] ** 2 for k in steps]).mean(0)
        else:
            variance = watch.sds[12] ** 2
        np.testing.assert_allclose(q.variance().detach().numpy(), variance, rtol=1e-4)
        assert result.net is not result.averaged


def test_the_training_itself_is_not_changed(go, records):
    plain, _ = go(val=True)
    averaged, _ = go(val=True, average="hwa")
    assert torch.equal(plain.net.posterior.mean, averaged.net.posterior.mean)
    assert torch.equal(plain.net.posterior.rho, averaged.net.posterior.rho)
    own = [{k: v for k, v in r.items() if "average" not in k} for r in records(averaged.history)]
    assert own == records(plain.history)
    assert plain.averaged is None


def test_the_history_scores_the_average(go, small_val):
    result, _ = go(val=True, average="hwa", average_every=2)
    scored = [r["epoch"] for r in result.history if "val_average_nll" in r]
    assert scored == [3, 4]
    assert result.history[-1]["val_average_nll"] > 0
    assert 0 <= result.history[-1]["val_average_accuracy"] <= 1


def test_low_rank_average(go):
    result, watch = go(average="hwa", covariance="low_rank", average_every=1, average_rank=4)
    q = result.averaged.posterior
    assert isinstance(q, LowRank)
    assert q.rank == 4
    means = np.stack([watch.means[k] for k in range(7, 13)])
    deviations = means[-4:] - means.mean(0)
    expected = means.var(0) / 2 + (deviations**2).sum(0) / (2 * 3)
    np.testing.assert_allclose(q.variance().detach().numpy(), expected, rtol=1e-4, atol=1e-10)


def test_restart_goes_on_from_the_average(go):
    result, watch = go(average="swa", average_every=3, average_start=0, average_restart=True)
    running = np.zeros_like(watch.means[1])
    for n, step in enumerate((3, 6, 9, 12)):
        running = (n * running + watch.means[step]) / (n + 1)
        begin = watch.begins.get(step, result.net.posterior.mean.detach().numpy())
        np.testing.assert_allclose(begin, running, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(result.averaged.posterior.mean.detach().numpy(), running, rtol=1e-5, atol=1e-7)
    assert np.array_equal(watch.begins[4], watch.means[4])


def test_restart_of_hwa_takes_the_sds_along(go):
    result, _ = go(average="hwa", average_every=3, average_restart=True)
    assert torch.equal(result.net.posterior.mean, result.averaged.posterior.mean)
    torch.testing.assert_close(result.net.posterior.sd, result.averaged.posterior.sd)


def test_batch_norm_has_the_averaged_weights_own_statistics(go, make_net, small):
    net = make_net(norm=True, posterior="point")
    result, _ = go(net=net, average="swa", average_every=1, average_start=0, lr=0.1)
    views = result.averaged.layout.views(result.averaged.posterior.mean.detach())
    hidden = torch.nn.functional.linear(small.x.flatten(1), views["1.weight"], views["1.bias"])
    ours, last = result.averaged.model[2], result.net.model[2]
    torch.testing.assert_close(ours.running_mean, hidden.mean(0), rtol=1e-4, atol=1e-5)
    # The mean of three batches' variances: below the data's by the variance of the batches' means.
    torch.testing.assert_close(ours.running_var, hidden.var(0), rtol=0.2, atol=0.0)
    assert not torch.allclose(last.running_mean, ours.running_mean, rtol=1e-2)
    assert ours.momentum == last.momentum == 0.1


def test_the_spread_of_other_families_is_the_last(go, make_net):
    for posterior in ("point", "low_rank"):
        result, _ = go(net=make_net(posterior=posterior), average="swa")
        assert result.averaged.posterior.kind == posterior
        for name, value in result.net.posterior.named_parameters():
            if name != "mean":
                assert torch.equal(result.averaged.posterior.get_parameter(name), value)


class StopAt(pt.Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, training, loss):
        if training.step + 1 == self.step:
            training.stop("enough")


def test_stopped_early(go):
    result, watch = go(average="hwa", average_every=2, callbacks=[StopAt(11)])
    means = np.stack([watch.means[k] for k in (8, 10)])
    np.testing.assert_allclose(result.averaged.posterior.mean.detach().numpy(), means.mean(0), rtol=1e-5, atol=1e-7)
    none, _ = go(average="hwa", average_every=2, callbacks=[StopAt(5)])
    assert none.averaged is None
    assert any("there is no average: it takes 1 snapshot," in w for w in none.history[-1]["warnings"])
    too_few, _ = go(average="hwa", average_every=2, covariance="snapshot", callbacks=[StopAt(9)])
    assert too_few.averaged is None
    assert any("takes 2 snapshots, and the training ended with 1" in w for w in too_few.history[-1]["warnings"])
    assert not any("average" in w for w in result.history[-1]["warnings"])


def test_with_patience_the_average_is_that_of_the_trajectory(go):
    result, _ = go(val=True, average="hwa", average_start=0, patience=1, lr=0.5, epochs=10)
    assert "no better" in result.stopped
    assert isinstance(result.averaged.posterior, MeanField)
    assert not torch.equal(result.averaged.posterior.mean, result.net.posterior.mean)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average": "ema"}, "unknown average 'ema'.*hwa, samples, swa"),
        ({"average": "hwa", "covariance": "full"}, "unknown covariance 'full'"),
        (
            {"average": "hwa", "average_start": 1.0},
            r"average_start: .*less than 1, a share of the training .*\(given: 1.0\)",
        ),
        ({"average": "hwa", "average_every": 0}, r"average_every: .*greater than or equal to 1 \(given: 0\)"),
        ({"average": "hwa", "average_rank": 1}, r"average_rank: .*greater than or equal to 2 \(given: 1\)"),
        (
            {"average": "swa", "average_every": 13},
            "at least 1 snapshot; of this training's 12 steps 0 come after step 6",
        ),
        ({"average": "hwa", "covariance": "snapshot", "average_every": 6}, "at least 2 .* multiples of 6"),
        ({"average": "hwa", "average_restart": True, "optimizer": "ivon"}, "curvature.*'swa'"),
    ],
)
def test_what_cannot_be_averaged_is_refused_before_a_directory_is_made(go, settings, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        go(out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_hwa_of_another_family_is_refused(go, make_net):
    with pytest.raises(UsageError, match="which a point posterior does not have: use swa"):
        go(net=make_net(posterior="point"), average="hwa")
