"""fit: it learns, it is reproducible, and each of its settings does what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity import data
from posterity.core.errors import DataError, UsageError
from posterity.metrics import score
from posterity.models import mlp


def test_learns_digits(digits):
    net = pt.bayesian(mlp((1, 8, 8), 10, hidden=(32,)), rho=-5.0, seed=0)
    result = pt.fit(net, digits.train, epochs=15, batch_size=50, lr=5e-3, temperature=0.1)
    metrics = score(net.predict(digits.test.x, 16, seed=0), digits.test.y, digits.test.task)
    assert metrics["accuracy"] > 0.93
    assert metrics["nll"] < 0.35
    assert result.history[-1]["nll"] < 0.3 * result.history[0]["nll"]
    assert [r["epoch"] for r in result.history] == list(range(1, 16))
    assert result.stopped == "epochs"
    assert result.best_epoch is None


def test_learns_the_function_and_the_noise_of_a_regression():
    splits = data.load("gap")
    torch.manual_seed(0)
    net = pt.bayesian(mlp((1,), 1, hidden=(32, 32), activation="tanh"), prior=pt.Gaussian(1.0), rho=-5.0, seed=0)
    pt.fit(net, splits.train, epochs=300, batch_size=25, lr=1e-2, temperature=0.05)
    metrics = score(net.predict(splits.test.x, 32, seed=0), splits.test.y, splits.test.task)
    assert metrics["rmse"] < 0.17  # the noise's own sd is 0.1, that of the targets 0.8
    sd = nn.functional.softplus(net.likelihood.rho).item()
    assert 0.07 < sd < 0.2  # began at log 2 = 0.69
    middle = net.predict(torch.full((1, 1), -0.1), 64, seed=0).epistemic.item()
    inside = net.predict(splits.train.x, 64, seed=0).epistemic.mean().item()
    assert middle > 2 * inside


def test_same_seed_same_bits_and_another_seed_others(make_net, small, small_val, records, same):
    def run(seed):
        net = make_net()
        result = pt.fit(net, small, small_val, epochs=2, batch_size=16, seed=seed)
        return dict(net.state_dict()), records(result.history)

    assert same(run(1), run(1))
    first, second = run(1), run(2)
    assert not torch.equal(first[0]["posterior.mean"], second[0]["posterior.mean"])
    assert first[1] != second[1]


def test_global_generator_is_left_alone(make_net, small):
    net = make_net(dropout=True)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    pt.fit(net, small, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_generator_does_not_decide(make_net, small):
    nets = [make_net(dropout=True) for _ in range(2)]
    for seed, net in enumerate(nets):
        torch.manual_seed(seed)
        pt.fit(net, small, epochs=1)
    assert torch.equal(nets[0].posterior.mean, nets[1].posterior.mean)


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


def test_patience_without_validation_is_refused(make_net, small):
    with pytest.raises(UsageError, match="validation"):
        pt.fit(make_net(), small, epochs=1, patience=2)


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


def test_numpy_pairs(make_net, small, same):
    one, other = make_net(), make_net()
    pt.fit(one, (small.x.numpy(), small.y.numpy()), (small.x.numpy(), small.y.numpy()), epochs=1)
    pt.fit(other, small, small, epochs=1)
    assert same(dict(one.state_dict()), dict(other.state_dict()))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("epochs", 0),
        ("batch_size", 0),
        ("samples", 0),
        ("val_samples", 0),
        ("clip", 0.0),
        ("patience", -1),
        ("kl_decay", -1.0),
        ("kl_decay", math.nan),
        ("lr", 0.0),
        ("lr", math.nan),
        ("optimizer", "adm"),
        ("optimizer_options", {"nosuch": 1}),
        ("schedule", "cosin"),
        ("schedule_options", {"nosuch": 1}),
        ("nosuch", 1),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(make_net, small, tmp_path, setting, value):
    net = make_net()
    before = net.posterior.mean.detach().clone()
    with pytest.raises(UsageError):
        pt.fit(net, small, small, out=tmp_path / "run", **{"epochs": 1, setting: value})
    assert torch.equal(net.posterior.mean, before)
    assert not (tmp_path / "run").exists()


def test_unknown_settings_get_a_suggestion(make_net, small):
    with pytest.raises(UsageError, match="Did you mean 'epochs'"):
        pt.fit(make_net(), small, epoch=1)


def test_data_that_does_not_fit_is_refused(make_net, small):
    with pytest.raises(DataError, match=r"7.*10"):
        pt.fit(make_net(outputs=7), small, epochs=1)
    with pytest.raises(DataError, match="shape"):
        pt.fit(make_net(), (np.zeros((4, 3)), np.array([0, 1, 2, 3])), epochs=1)
    with pytest.raises(DataError, match="float32"):
        pt.fit(make_net().double(), small, epochs=1)
    few = data.Dataset(small.x, small.y, "classification", 10)
    with pytest.raises(DataError, match="classes"):
        pt.fit(make_net(), few, pt.Dataset(small.x, small.y % 3, "classification", 3), epochs=1)


def test_printing_a_result_is_one_line(make_net, small, small_val):
    result = pt.fit(make_net(), small, small_val, epochs=2, average="swa")
    shown = repr(result)
    assert "\n" not in shown
    last = result.history[-1]
    for part in ("FitResult(2 epochs", "stopped: epochs, with an average", f"nll {last['nll']:.4g}", "val_accuracy "):
        assert part in shown
    assert repr(result.history).startswith("History(2 records, the last: loss ")


def test_float_labels_are_told_from_classes(make_net, small):
    with pytest.raises(UsageError, match=r"float targets mean regression: for classes give integers"):
        pt.fit(make_net(), (small.x, small.y.float()), epochs=1)
