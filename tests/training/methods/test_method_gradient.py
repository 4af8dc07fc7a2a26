"""Ordinary optimisers through `fit`: rates, options and schedules by group, turns, what is refused, resumption."""

import math

import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.optim import OPTIMIZERS, AdaBayesFP, Muon
from posterity.training import Callback, Settings, plan
from posterity.training.methods import METHODS


@pytest.fixture
def groups_of(curve, curve_net):
    """The groups that a plan has for these settings."""

    def build(net=None, **settings):
        net = net or curve_net(likelihood=pt.GaussianNoise(0.1))
        return plan(net, curve, None, Settings.of(**settings)).groups

    return build


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
        ({}, (0.02, 0.1)),  # the standard deviations by Adam
        ({"lr": 0.02}, (0.02, 0.1)),
        ({"optimizer": "sgd"}, (0.01, 0.1)),
        ({"optimizer": "yellowfin", "lr": 2.0}, (2.0, 2.0)),  # one tuner for both
        ({"lr": 0.01, "lr_ratio": 0.1}, (0.01, 0.001)),
        ({"lr_sd": 0.5}, (0.02, 0.5)),
        ({"lr": 0.3, "optimizer_sd": "sgd"}, (0.3, 1e-2)),
        ({"lr": 0.3, "optimizer_sd": "sgd", "lr_sd": 0.2}, (0.3, 0.2)),
    ],
)
def test_rates(groups_of, settings, rates):
    groups = groups_of(**settings)
    assert [g.name for g in groups] == ["mean", "sd"]
    assert [g.base_lr for g in groups] == pytest.approx(rates)


def default_rates(rows, batch_size, *, classes=False):
    """Of the means and of the standard deviations, in a network of 4 weights: x -> one hidden unit -> y."""
    x = torch.linspace(-1, 1, rows)[:, None]
    y = (x[:, 0] > 0).long() if classes else x.sin()
    width = 2 if classes else 1
    net = pt.bayesian(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Tanh(), torch.nn.Linear(1, width)))
    groups = plan(net, (x, y), None, Settings.of(batch_size=batch_size)).groups
    return tuple(group.base_lr for group in groups)


@pytest.mark.parametrize(
    ("batches", "classes", "rate"),
    [
        (50, True, 0.1),
        (100, True, 0.05),  # lr_sd FEW / M
        (500, True, 0.01),
        (20, False, 0.1),
        (160, False, 0.05),  # lr_sd (FEW_SMALL / M)^(1/3): a small regression's have to follow a late warming
    ],
)
def test_the_rate_of_standard_deviations_falls_with_the_batches_of_an_epoch(batches, classes, rate):
    assert default_rates(batches, 1, classes=classes)[1] == pytest.approx(rate)


@pytest.mark.parametrize(("rows", "factor"), [(20, 1), (40, 1), (90, 1.5), (160, 2), (1000, 2)])
def test_small_regressions_with_many_data_for_a_weight_make_haste(rows, factor):
    """sqrt(p / (RICH N)) for N = 4, from 1 to MOST_HASTE; classes are not in a hurry."""
    assert default_rates(rows, 50)[0] == pytest.approx(0.01 * factor)
    assert default_rates(rows, 50, classes=True)[0] == 0.02


@pytest.mark.parametrize(
    ("noise", "width", "kind"),
    [
        (None, 3, AdaBayesFP),
        (None, 600, Muon),  # 1801 weights
        (0.1, 3, Muon),  # noise that is known
    ],
)
def test_small_regressions_have_an_optimiser_of_their_own(curve, curve_net, noise, width, kind):
    likelihood = {} if noise is None else {"likelihood": pt.GaussianNoise(noise)}
    model = torch.nn.Sequential(torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
    for posterior in ("mean_field", "point"):
        planned = plan(pt.bayesian(model, posterior=posterior, **likelihood), curve, None, Settings())
        assert type(planned.groups[0].optimizer) is kind
        assert planned.settings.optimizer == {AdaBayesFP: "adabayes-fp", Muon: "muon"}[kind]


def test_each_group_has_its_own_optimiser_and_schedule(groups_of):
    mean, sd = groups_of(optimizer="adam", optimizer_sd="sgd", schedule="cosine", schedule_sd="constant")
    assert isinstance(mean.optimizer, torch.optim.Adam)
    assert isinstance(sd.optimizer, torch.optim.SGD)
    assert (mean.schedule.factor(1.0), sd.schedule.factor(1.0)) == pytest.approx((0.0, 1.0))


def test_deterministic_weights_follow_the_means(groups_of, curve_net):
    groups = groups_of(curve_net(select="0.*"), lr=0.02, lr_sd=0.5)
    assert {g.name: g.base_lr for g in groups} == {"mean": 0.02, "sd": 0.5, "deterministic": 0.02}


def test_groups_share_one_yellowfin(groups_of):
    """Alone, the standard deviations' tiny gradients would be taken for a tiny curvature."""
    groups = groups_of(optimizer="yellowfin", lr_ratio=0.5)
    assert len({id(g.optimizer) for g in groups}) == 1
    assert [(g.name, g.base_lr, g.lr) for g in groups] == [("mean", 1.0, 1.0), ("sd", 0.5, 0.5)]
    assert [g.parameters[0].shape for g in groups] == [(25,), (25,)]
    apart = groups_of(optimizer="yellowfin", optimizer_sd_options={"beta": 0.9})
    assert len({id(g.optimizer) for g in apart}) == 2


def test_yellowfin_measures_all_groups_and_moves_the_active_ones(curve, curve_net):
    moves, norms, tuned = Moves(), [], []

    class Watch(Callback):
        def on_step(self, training, loss):
            tuned.append(training.groups[0].optimizer.shared)
            norms.append(math.hypot(*training.gradient_norms.values()))

    settings = {"optimizer": "yellowfin", "alternate": 1, "schedule": "constant"}
    history = pt.fit(curve_net(), curve, epochs=4, batch_size=40, callbacks=[moves, Watch()], **settings).history
    assert moves.seen == [(True, False), (False, True)] * 2
    assert [math.sqrt(square) for square in tuned[-1]["window"]] == pytest.approx(norms[:-1], rel=1e-5)
    recorded = history[-1]["groups"]["mean"]["tuning"]
    assert set(recorded) == {"h_min", "h_max", "C", "D", "mu", "lr"}
    assert recorded["h_max"] > recorded["h_min"] > 0
    assert "tuning" not in history[-1]["groups"]["sd"]  # it is the same tuner
    assert history[-1]["groups"]["mean"]["effective_rate"] == pytest.approx([recorded["lr"] * 4 / 200] * 3, rel=1e-4)


def test_options_of_the_standard_deviations_are_added_to_the_means_where_all_else_is_the_same(groups_of):
    common = {
        "optimizer": "adam",
        "optimizer_options": {"eps": 0.1, "weight_decay": 0.5},
        "optimizer_sd_options": {"weight_decay": 0.0},
    }
    schedules = {"schedule_options": {"patience": 7, "drop": 0.2}, "schedule_sd_options": {"patience": 2}}
    mean, sd = groups_of(schedule="plateau", **schedules, **common)
    assert [(g.settings["eps"], g.settings["weight_decay"]) for g in (mean, sd)] == [(0.1, 0.5), (0.1, 0.0)]
    assert [(g.schedule.metric, g.schedule.patience, g.schedule.drop) for g in (mean, sd)] == [
        ("nll", 7, 0.2),
        ("kl", 2, 0.2),
    ]
    _, sd = groups_of(optimizer="adam", optimizer_sd="sgd", schedule_sd="cosine", optimizer_options={"eps": 0.1})
    assert "eps" not in sd.settings


def test_a_schedule_by_epoch_changes_between_epochs(curve, curve_net):
    rates = []

    class Watch(Callback):
        def on_step(self, training, loss):
            rates.append(training.groups[0].settings["lr"])

    by_epoch = {"schedule_options": {"by": "epoch"}, "lr": 1.0, "lr_sd": 1e-9}
    pt.fit(curve_net(), curve, epochs=3, batch_size=10, optimizer="adam", callbacks=[Watch()], **by_epoch)
    expected = [0.5 * (1 + math.cos(math.pi * epoch / 3)) for epoch in range(3) for _ in range(4)]
    assert rates[1:] == pytest.approx(expected[:-1])  # what is seen is the rate of the step before


def test_alternating(curve, curve_net):
    moves = Moves()
    pt.fit(curve_net(), curve, epochs=6, batch_size=20, alternate=2, schedule="constant", callbacks=[moves])
    assert moves.seen == [(True, False)] * 2 + [(False, True)] * 2 + [(True, False)] * 2


def test_a_tiny_ratio_freezes_the_standard_deviations(curve, curve_net):
    net = curve_net()
    before = net.posterior.rho.detach().clone()
    pt.fit(net, curve, epochs=2, lr_ratio=1e-12)
    assert torch.equal(net.posterior.rho, before)


def test_plateau_takes_nll_for_means_and_kl_for_standard_deviations(groups_of):
    mean, sd = groups_of(schedule="plateau")
    for epoch in range(5):
        mean.schedule.observe({"nll": 1.0, "kl": 1.0})
        sd.schedule.observe({"nll": 1.0, "kl": -float(epoch)})
    assert mean.schedule.factor(0.0) == 0.5
    assert sd.schedule.factor(0.0) == 1.0


def test_plateau_drops_after_patience_and_one_more_epoch_without_improvement(curve, curve_net):
    """As PyTorch's: the first epoch is an improvement, the next `patience` are borne, the one after them is not."""
    net = curve_net(likelihood=pt.GaussianNoise(0.1), posterior="point")
    options = {"schedule": "plateau", "schedule_options": {"patience": 2, "drop": 0.1, "metric": "lr"}}
    history = pt.fit(net, curve, epochs=8, batch_size=40, lr=1.0, **options).history
    plain = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(plain, factor=0.1, patience=2)
    expected = []
    for record in history:
        expected.append(plain.param_groups[0]["lr"])
        reference.step(record["lr"])
    assert [r["lr"] for r in history] == pytest.approx(expected)
    assert expected[:5] == [1.0, 1.0, 1.0, 1.0, 0.1]


def test_a_short_last_batch_of_adabayes_by_hand(curve, curve_net):
    """Batches of 24 and 16 rows: the filter's gradient is that of the sum over the rows there are."""
    lr, lr_sgd, nominal = 0.02, 0.1, 24
    net = curve_net(posterior="point", likelihood=pt.GaussianNoise(0.3), prior=pt.Gaussian(1.0))
    seen, weights = [], [net.posterior.mean.detach().double().clone()]

    class Keep(Callback):
        def on_step(self, training, loss):
            rows = min(nominal, 40 - training.step * nominal)
            seen.append((rows, training.net.posterior.mean.grad.double().clone()))

        def on_step_end(self, training):
            weights.append(training.net.posterior.mean.detach().double().clone())

    settings = {"lr": lr, "optimizer_options": {"lr_sgd": lr_sgd}, "schedule": "constant", "batch_size": nominal}
    pt.fit(net, curve, epochs=1, optimizer="adabayes", callbacks=[Keep()], **settings)
    assert [rows for rows, _ in seen] == [24, 16]
    s2 = lr_sgd / nominal
    variance, average, w = s2, 0.0, weights[0]
    for step, (rows, gradient) in enumerate(seen, 1):
        g = rows * gradient
        posterior = 1 / (1 / variance + g**2)
        average = 0.9 * average + 0.1 * g
        w = w - posterior * average / (1 - 0.9**step)
        variance = (1 - lr**2 / (2 * s2)) ** 2 * posterior + lr**2
        torch.testing.assert_close(weights[step], w, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr_sd": 0.1, "lr_ratio": 0.1}, "not both"),
        ({"optimizer_sd": "adm"}, "Did you mean 'adam'"),
        ({"schedule_sd": "cosin"}, "Did you mean 'cosine'"),
        ({"lr_ratio": -1.0}, "lr_ratio: .*greater than 0"),
        ({"alternate": 0}, "alternate: .*greater than or equal to 1"),
        ({"schedule": "plateau", "schedule_options": {"patence": 3}}, "'patence'.*Did you mean 'patience'"),
        ({"schedule": "plateau", "schedule_options": {"patience": "long"}}, "a whole number such as 3, not 'long'"),
        ({"schedule": "plateau", "schedule_options": {"drop": -1.0}}, r"drop must lie in \[0, 1\], not -1"),
        ({"schedule": "plateau", "schedule_options": {"patience": -1}}, "patience of at least 0"),
        ({"schedule": "step", "schedule_options": {"milestones": 0.5}}, "numbers such as 0.5:0.75, not 0.5"),
        ({"schedule": "step", "schedule_options": {"milestones": (5.0,)}}, "milestone 1 must lie"),
        ({"schedule_options": {"by": "epocs"}}, "Did you mean 'epoch'"),
        ({"schedule_sd_options": {"flor": 0.1}}, "Did you mean 'floor'"),
        ({"optimizer_options": {"momentun": 0.1}, "optimizer": "sgd"}, "Did you mean 'momentum'"),
        ({"optimizer_options": {"momentum": "x"}, "optimizer": "sgd"}, "momentum of optimizer 'sgd' takes a number"),
        ({"optimizer_options": {"momentum": -1.0}, "optimizer": "sgd"}, "-1"),
        ({"optimizer_options": {"lr": 0.1}}, "unknown option of optimizer 'adabayes-fp' 'lr'"),
        ({"optimizer_options": {"groups": 1}}, "unknown option of optimizer 'adabayes-fp' 'groups'"),
        ({"schedule_options": {"epochs": 3}}, "unknown option of schedule 'cosine' 'epochs'"),
        ({"schedule_options": {"name": "step"}}, "unknown option of schedule 'cosine' 'name'"),
        ({"optimizer_sd": "adabayes", "optimizer_sd_options": {"lr_sgd": 0.0}}, "lr_sgd must be positive"),
    ],
)
def test_errors(curve, curve_net, tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        pt.fit(curve_net(), curve, epochs=1, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_trains_through_fit(curve, curve_net, name):
    lr = {"adagrad": 0.1, "yellowfin": None, "adabayes": None, "adabayes-fp": None}.get(name, 1e-2)
    settings = {"epochs": 30, "batch_size": 10, "temperature": 0.01, "lr": lr}
    history = pt.fit(curve_net(), curve, optimizer=name, **settings).history
    assert history[-1]["nll"] < history[0]["nll"] - 0.05


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_has_its_effective_rates_recorded(curve, curve_net, name):
    groups = pt.fit(curve_net(), curve, optimizer=name, epochs=1, schedule="constant").history[-1]["groups"]
    for group in groups.values():
        low, middle, high = group["effective_rate"]
        assert 0 < low <= middle <= high


@pytest.mark.parametrize("name", sorted(METHODS.keys() - OPTIMIZERS.keys()))
def test_other_methods_are_refused_for_the_standard_deviations(curve, curve_net, name):
    with pytest.raises(UsageError, match=f"unknown optimizer of the standard deviations '{name}'.*adam"):
        pt.fit(curve_net(), curve, epochs=1, optimizer_sd=name)
    with pytest.raises(UsageError, match=r"alternate \(1\) is for standard deviations, which .* not train by themsel"):
        pt.fit(curve_net(), curve, epochs=1, optimizer=name, alternate=1)


RESUMED = [
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
def test_groups_resume_to_the_last_bit(check_resumption, curve, curve_net, settings, at, tmp_path):
    check_resumption(curve_net, curve, at, tmp_path / "run", epochs=6, batch_size=10, temperature=0.01, **settings)
