"""The loop: the steps it takes, what it records, when it stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt


def test_patience_restores_the_best_weights(make_net, small, small_val):
    net = make_net()
    kept = []

    class Keep(pt.Callback):
        def on_epoch(self, training, record):
            kept.append((record["val_nll"], training.net.posterior.mean.detach().clone()))

    # So large a rate that validation soon gets worse.
    result = pt.fit(
        net, small, small_val, epochs=60, batch_size=20, lr=0.1, temperature=0, patience=3, callbacks=[Keep()]
    )
    losses = [loss for loss, _ in kept]
    best = int(np.argmin(losses))
    assert "3 epochs" in result.stopped
    assert len(losses) == best + 1 + 3
    assert result.best_epoch == best + 1
    assert torch.equal(net.posterior.mean, kept[best][1])
    assert not torch.equal(net.posterior.mean, kept[-1][1])


def test_clip_limits_the_norm_that_the_optimiser_sees(make_net, small):
    norms: dict[float | None, list[float]] = {}
    for clip in (None, 0.05):
        seen = norms.setdefault(clip, [])

        class Look(pt.Callback):
            def on_step(self, training, loss, seen=seen):
                squares = [p.grad.square().sum() for p in training.net.parameters() if p.grad is not None]
                seen.append(torch.stack(squares).sum().sqrt().item())

        pt.fit(make_net(), small, epochs=2, batch_size=20, clip=clip, callbacks=[Look()])
    assert min(norms[None]) > 0.06
    assert max(norms[0.05]) <= 0.05 * (1 + 1e-5)
    assert min(norms[0.05]) > 0.04


def test_callbacks_in_order_and_a_stop(make_net, small):
    seen = []

    class Note(pt.Callback):
        def __init__(self, name):
            self.name = name

        def on_start(self, training):
            seen.append((self.name, "start", training.step))

        def on_step(self, training, loss):
            seen.append((self.name, "step", training.step))
            if self.name == "b" and training.step == 4:
                training.stop("enough")

        def on_epoch(self, training, record):
            seen.append((self.name, "epoch", record["epoch"]))

        def on_end(self, training):
            seen.append((self.name, "end", training.step))

    result = pt.fit(make_net(), small, epochs=9, batch_size=20, callbacks=[Note("a"), Note("b")])
    moments = [("start", 0), *(("step", k) for k in (0, 1, 2)), ("epoch", 1), ("step", 3), ("step", 4)]
    moments += [("epoch", 2), ("end", 5)]
    assert seen == [(name, *moment) for moment in moments for name in "ab"]
    assert result.stopped == "enough"
    assert [r["epoch"] for r in result.history] == [1, 2]  # the second was cut short
    assert result.history[-1]["step"] == 5


def test_a_point_posterior_without_kl_is_maximum_likelihood(make_net, small):
    """The same steps as plain PyTorch takes."""
    net = make_net(posterior="point")
    plain = make_net(posterior="point")
    pt.fit(net, small, epochs=3, batch_size=1000, optimizer="sgd", lr=0.1, schedule="constant", temperature=0)
    vector = plain.posterior.mean.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([vector], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain.call(vector, small.x), small.y).backward()
        optimizer.step()
    torch.testing.assert_close(net.posterior.mean.detach(), vector.detach(), rtol=1e-4, atol=1e-6)


def test_kl_decay_zero_is_temperature_zero(make_net, small):
    one, other, third = make_net(), make_net(), make_net()
    pt.fit(one, small, epochs=2, kl_decay=0)
    pt.fit(other, small, epochs=2, temperature=0)
    pt.fit(third, small, epochs=2)
    assert torch.equal(one.posterior.mean, other.posterior.mean)
    assert torch.equal(one.posterior.rho, other.posterior.rho)
    assert not torch.equal(one.posterior.rho, third.posterior.rho)


def test_loss_in_the_history_is_nll_and_weighted_kl(make_net, small):
    record = pt.fit(make_net(), small, epochs=1, temperature=0.5).history[0]
    assert record["loss"] == pytest.approx(record["nll"] + 0.5 * record["kl"] / len(small))
    record = pt.fit(make_net(), small, epochs=1, kl_decay=0).history[0]
    assert record["loss"] == record["nll"]


def test_deterministic_weights_and_batch_norm_are_trained(make_net, small):
    net = make_net(norm=True, dropout=True, select="1.*")
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    result = pt.fit(net, small, epochs=3, batch_size=20, samples=2)
    after = net.state_dict()
    for name in ("model.5.weight", "model.2.weight", "model.2.running_mean", "posterior.mean", "posterior.rho"):
        assert not torch.equal(before[name], after[name]), name
    assert torch.equal(before["prior.precision"], after["prior.precision"])
    assert math.isfinite(result.history[-1]["nll"])


def test_a_batch_may_be_larger_than_the_data(make_net, small):
    result = pt.fit(make_net(), small, epochs=2, batch_size=10**6)
    assert [r["step"] for r in result.history] == [1, 2]
