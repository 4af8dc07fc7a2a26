import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.data import Dataset
from posterity.optim import OPTIMIZERS
from posterity.training import Callback
from posterity.training.groups import SAMPLERS, build_groups
from posterity.training.settings import Settings


def data(n=40):
    x = torch.linspace(-1, 1, n).unsqueeze(1)
    return Dataset(x, torch.sin(3 * x), "regression")


def network(**options):
    torch.manual_seed(0)
    return pt.bayesian(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), rho=-4.0, seed=0, **options)


class Moves(Callback):
    """By epoch, whether the means and the standard deviations changed."""

    def __init__(self):
        self.seen, self.before = [], None

    def on_start(self, training):
        self.before = (training.net.posterior.mean.detach().clone(), training.net.posterior.rho.detach().clone())

    def on_epoch(self, training, record):
        now = (training.net.posterior.mean.detach().clone(), training.net.posterior.rho.detach().clone())
        self.seen.append(tuple(not torch.equal(a, b) for a, b in zip(self.before, now, strict=True)))
        self.before = now


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, (1e-3, 1e-3)),
        ({"lr": 0.01}, (0.01, 0.01)),
        ({"lr": 0.01, "lr_ratio": 0.1}, (0.01, 0.001)),
        ({"lr_sd": 0.5}, (1e-3, 0.5)),
        ({"lr": 0.3, "optimizer_sd": "sgd"}, (0.3, 1e-2)),
        ({"lr": 0.3, "optimizer_sd": "sgd", "lr_sd": 0.2}, (0.3, 0.2)),
    ],
)
def test_rates(settings, rates):
    groups = build_groups(network(), Settings(**settings), num_data=40, batch_size=10)
    assert [g.name for g in groups] == ["mean", "sd"]
    assert [g.base_lr for g in groups] == pytest.approx(rates)


def test_each_group_has_its_own_optimiser_and_schedule():
    settings = Settings(optimizer="adam", optimizer_sd="sgd", schedule="cosine", schedule_sd="constant")
    mean, sd = build_groups(network(), settings, num_data=40, batch_size=10)
    assert isinstance(mean.optimizer, torch.optim.Adam)
    assert isinstance(sd.optimizer, torch.optim.SGD)
    assert (mean.schedule.factor(1.0), sd.schedule.factor(1.0)) == pytest.approx((0.0, 1.0))


def test_deterministic_weights_follow_the_means():
    net = network(select="0.*")
    groups = build_groups(net, Settings(lr=0.02, lr_sd=0.5), num_data=40, batch_size=10)
    assert {g.name: g.base_lr for g in groups} == {"mean": 0.02, "sd": 0.5, "deterministic": 0.02}


def test_groups_share_one_yellowfin():
    """Alone, the standard deviations' tiny gradients would be taken for a tiny curvature."""
    groups = build_groups(network(), Settings(optimizer="yellowfin", lr_ratio=0.5), num_data=40, batch_size=10)
    assert len({id(g.optimizer) for g in groups}) == 1
    assert [(g.name, g.base_lr, g.lr) for g in groups] == [("mean", 1.0, 1.0), ("sd", 0.5, 0.5)]
    assert [g.parameters[0].shape for g in groups] == [(25,), (25,)]
    apart = Settings(optimizer="yellowfin", optimizer_sd_options={"beta": 0.9})
    assert len({id(g.optimizer) for g in build_groups(network(), apart, num_data=40, batch_size=10)}) == 2


def test_yellowfin_measures_all_groups_and_moves_the_active_ones():
    moves, norms, tuned = Moves(), [], []

    class Watch(Callback):
        def on_step(self, training, loss):
            tuned.append(training.groups[0].optimizer.shared)
            norms.append(math.hypot(*training.gradient_norms.values()))

    settings = {"optimizer": "yellowfin", "alternate": 1, "schedule": "constant"}
    history = pt.fit(network(), data(), epochs=4, batch_size=40, callbacks=[moves, Watch()], **settings).history
    assert moves.seen == [(True, False), (False, True)] * 2
    assert [math.sqrt(square) for square in tuned[-1]["window"]] == pytest.approx(norms[:-1], rel=1e-5)
    recorded = history[-1]["groups"]["mean"]["yellowfin"]
    assert set(recorded) == {"h_min", "h_max", "C", "D", "mu", "lr"}
    assert recorded["h_max"] > recorded["h_min"] > 0
    assert "yellowfin" not in history[-1]["groups"]["sd"]  # it is the same tuner
    assert history[-1]["groups"]["mean"]["effective_rate"] == pytest.approx([recorded["lr"] * 4 / 200] * 3, rel=1e-4)


def test_options_of_the_standard_deviations_are_added_to_the_means_where_all_else_is_the_same():
    common = {"optimizer_options": {"eps": 0.1, "weight_decay": 0.5}, "optimizer_sd_options": {"weight_decay": 0.0}}
    schedules = {"schedule_options": {"patience": 7, "drop": 0.2}, "schedule_sd_options": {"patience": 2}}
    settings = Settings(schedule="plateau", **schedules, **common)
    mean, sd = build_groups(network(), settings, num_data=40, batch_size=10)
    assert [(g.settings["eps"], g.settings["weight_decay"]) for g in (mean, sd)] == [(0.1, 0.5), (0.1, 0.0)]
    assert [(g.schedule.metric, g.schedule.patience, g.schedule.drop) for g in (mean, sd)] == [
        ("nll", 7, 0.2),
        ("kl", 2, 0.2),
    ]
    other = Settings(optimizer_sd="sgd", schedule_sd="cosine", optimizer_options={"eps": 0.1})
    _, sd = build_groups(network(), other, num_data=40, batch_size=10)
    assert "eps" not in sd.settings


def test_a_schedule_by_epoch_changes_between_epochs():
    rates = []

    class Watch(Callback):
        def on_step(self, training, loss):
            rates.append(training.groups[0].settings["lr"])

    by_epoch = {"schedule_options": {"by": "epoch"}, "lr": 1.0, "lr_sd": 1e-9}
    pt.fit(network(), data(), epochs=3, batch_size=10, optimizer="adam", callbacks=[Watch()], **by_epoch)
    expected = [0.5 * (1 + math.cos(math.pi * epoch / 3)) for epoch in range(3) for _ in range(4)]
    assert rates[1:] == pytest.approx(expected[:-1])  # what is seen is the rate of the step before


def test_alternating():
    moves = Moves()
    pt.fit(network(), data(), epochs=6, batch_size=20, alternate=2, schedule="constant", callbacks=[moves])
    assert moves.seen == [(True, False)] * 2 + [(False, True)] * 2 + [(True, False)] * 2


def test_a_tiny_ratio_freezes_the_standard_deviations():
    net = network()
    before = net.posterior.rho.detach().clone()
    pt.fit(net, data(), epochs=2, lr_ratio=1e-12)
    assert torch.equal(net.posterior.rho, before)


def test_plateau_takes_nll_for_means_and_kl_for_standard_deviations():
    mean, sd = build_groups(network(), Settings(schedule="plateau"), num_data=40, batch_size=10)
    for _ in range(5):
        mean.schedule.observe({"nll": 1.0, "kl": 1.0})
        sd.schedule.observe({"nll": 1.0, "kl": -float(torch.rand(()) + _)})
    assert mean.schedule.factor(0.0) == 0.5
    assert sd.schedule.factor(0.0) == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr_sd": 0.1, "lr_ratio": 0.1}, "not both"),
        ({"optimizer_sd": "adm"}, "Did you mean 'adam'"),
        ({"schedule_sd": "cosin"}, "Did you mean 'cosine'"),
        ({"lr_ratio": -1.0}, "lr_ratio must be positive"),
        ({"alternate": 0}, "alternate must be positive"),
        ({"schedule": "plateau", "schedule_options": {"patence": 3}}, "'patence'.*Did you mean 'patience'"),
        ({"schedule": "plateau", "schedule_options": {"patience": "long"}}, "a number such as 3, not 'long'"),
        ({"schedule": "plateau", "schedule_options": {"drop": -1.0}}, r"drop must lie in \[0, 1\], not -1"),
        ({"schedule": "plateau", "schedule_options": {"patience": -1}}, "patience of at least 0"),
        ({"schedule": "step", "schedule_options": {"milestones": 0.5}}, "numbers such as 0.5:0.75, not 0.5"),
        ({"schedule": "step", "schedule_options": {"milestones": (5.0,)}}, "milestone 1 must lie"),
        ({"schedule_options": {"by": "epocs"}}, "Did you mean 'epoch'"),
        ({"schedule_sd_options": {"flor": 0.1}}, "Did you mean 'floor'"),
        ({"optimizer_options": {"momentun": 0.1}, "optimizer": "sgd"}, "Did you mean 'momentum'"),
        ({"optimizer_options": {"momentum": "x"}, "optimizer": "sgd"}, "momentum of optimizer 'sgd' takes a number"),
        ({"optimizer_options": {"momentum": -1.0}, "optimizer": "sgd"}, "-1"),
        ({"optimizer_options": {"lr": 0.1}}, "unknown option of optimizer 'adam' 'lr'"),
        ({"optimizer_sd": "adabayes", "optimizer_sd_options": {"lr_sgd": 0.0}}, "lr_sgd must be positive"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(UsageError, match=message):
        pt.fit(network(), data(), epochs=1, **settings)


def test_diagnostics_are_recorded():
    net = network()
    record = pt.fit(net, data(), epochs=1, batch_size=40, optimizer="adam", schedule="constant").history[-1]
    assert set(record["groups"]) == {"mean", "sd", "deterministic"}  # the learnt noise is deterministic
    assert record["groups"]["mean"]["gradient_norm"] > 0
    low, middle, high = record["groups"]["mean"]["effective_rate"]
    assert 0 < low <= middle <= high
    snr = (net.posterior.mean.abs() / net.posterior.sd).detach()
    expected = torch.quantile(snr, torch.tensor([0.1, 0.5, 0.9])).tolist()
    assert record["snr"] == pytest.approx(expected, rel=1e-4)
    assert math.fsum(record["kl_by_layer"].values()) == pytest.approx(record["kl"], rel=1e-5)


def test_first_adam_step_has_the_effective_rate_of_its_gradient():
    """After one step <g^2> = g^2, so that the effective rate is lr / (|g| + eps)."""
    gradients = []

    class Keep(Callback):
        def on_step(self, training, loss):
            gradients.append(training.net.posterior.mean.grad.clone())

    result = pt.fit(network(), data(), epochs=1, batch_size=40, lr=0.01, schedule="constant", callbacks=[Keep()])
    rates = 0.01 / (gradients[0].abs() + 1e-8)
    expected = torch.quantile(rates, torch.tensor([0.1, 0.5, 0.9])).tolist()
    assert result.history[-1]["groups"]["mean"]["effective_rate"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in SAMPLERS])
def test_every_optimiser_trains_through_fit(name):
    lr = {"adagrad": 0.1, "yellowfin": None, "adabayes": None, "adabayes-fp": None}.get(name, 1e-2)
    settings = {"epochs": 30, "batch_size": 10, "temperature": 0.01, "lr": lr}
    history = pt.fit(network(), data(), optimizer=name, **settings).history
    assert history[-1]["nll"] < history[0]["nll"] - 0.05


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in SAMPLERS])
def test_every_optimiser_has_its_effective_rates_recorded(name):
    groups = pt.fit(network(), data(), optimizer=name, epochs=1, schedule="constant").history[-1]["groups"]
    for group in groups.values():
        low, middle, high = group["effective_rate"]
        assert 0 < low <= middle <= high


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_are_refused_for_the_standard_deviations(name):
    with pytest.raises(UsageError, match="cannot train the standard deviations by themselves"):
        pt.fit(network(), data(), epochs=1, optimizer_sd=name)
    with pytest.raises(UsageError, match="alternate has no meaning"):
        pt.fit(network(), data(), epochs=1, optimizer=name, alternate=1)


class Cut(Callback):
    """Ends the process's work, as a crash would, before step `at`."""

    kept = False

    def __init__(self, at):
        self.at = at

    def on_step(self, training, loss):
        if training.step == self.at:
            raise KeyboardInterrupt


def check_resumption(at, out, **common):
    """Cut off before step `at` and resumed, a training ends with the same bits and the same history."""
    common = {"batch_size": 10, "checkpoint_seconds": 0, "temperature": 0.01, **common}
    whole = pt.fit(network(), data(), **common)
    with pytest.raises(KeyboardInterrupt):
        pt.fit(network(), data(), out=out, callbacks=[Cut(at)], **common)
    resumed = pt.fit(network(), data(), out=out, resume=True, **common)
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, resumed.net.state_dict()[name]), name
    quiet = [{k: v for k, v in record.items() if k != "seconds"} for record in whole.history]
    assert [{k: v for k, v in record.items() if k != "seconds"} for record in resumed.history] == quiet


RESUMED = [
    {"optimizer": "ivon"},
    *({"optimizer": name} for name in ("adabound", "amsbound", "adabayes", "adabayes-fp")),
    {"optimizer": "yellowfin"},
    {"optimizer": "yellowfin", "alternate": 1, "lr_ratio": 0.5},
    {"optimizer": "yellowfin", "optimizer_sd": "adam"},
    {"optimizer_sd": "sgd", "schedule_sd": "cyclic", "lr_ratio": 0.1},
    {"schedule": "plateau", "schedule_options": {"patience": 1, "warmup": 0.2}},
    {"schedule": "one-cycle", "alternate": 1},
    {"schedule": "step", "schedule_options": {"milestones": (0.3, 0.6), "by": "epoch"}},
    {"optimizer_options": {"betas": (0.8, 0.99)}, "optimizer_sd_options": {"eps": 1e-6}},
]


@pytest.mark.parametrize("settings", RESUMED, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("at", [3, 13])
def test_groups_resume_to_the_last_bit(settings, at, tmp_path):
    check_resumption(at, tmp_path, epochs=6, **settings)
