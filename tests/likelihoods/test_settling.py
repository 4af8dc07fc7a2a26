"""Noise of new data, when a training has ended: Student-t with a trend, fitted to leave-one-out residuals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.likelihoods import StudentPrediction

TRUE = 0.3


def sd_of(likelihood):
    return F.softplus(likelihood.rho.detach())


def draws_of(distribution, count=4000, seed=0):
    return torch.as_tensor(distribution.rvs(count, random_state=seed))


def settled(noise="learnt", df=(3.0, math.inf), sd=(0.4, 0.7), **more):
    """A likelihood of two targets with these values."""
    likelihood = pt.GaussianNoise(noise, num_targets=2).double()
    sds = torch.tensor(sd).double()
    own = {"unit": sds} if noise == "input" else {"rho": sds.expm1().log()}
    found = own | {"df": torch.tensor(df)} | {name: torch.tensor(value) for name, value in more.items()}
    likelihood.load_state_dict(likelihood.state_dict() | found)
    return likelihood


def test_settling_by_hand():
    """The penalised density of the header, maximised by another optimiser."""
    g = torch.Generator().manual_seed(0)
    likelihood = pt.GaussianNoise("learnt").double()
    outputs, noise = 0.2 * torch.randn(3, 50, 1, generator=g).double(), draws_of(stats.t(3), 50)[:, None]
    y, h = 0.5 * noise, 0.95 * torch.rand(50, 1, generator=g).double()
    density = likelihood.settle(likelihood.predict(outputs), y, h)
    z, target = outputs[..., 0].numpy(), y[:, 0].numpy()
    m = z.mean(0)
    left_out = (target - m) / (1 - h[:, 0].clamp_max(0.9).numpy())
    t = (z - m.mean()) / m.std()

    def each(at):
        log_c, v, b, log_k = at
        c = np.exp(log_c + b * t)
        return np.log((stats.t(v).pdf((left_out - np.exp(log_k) * (z - m)) / c) / c).mean(0))

    def loss(at):
        return -each(at).mean() + (2 * at[2] ** 2 + 0.5 * at[3] ** 2) / 50

    bounds = [(-5, 5), (3.0, 200), (-2, 2), (0, math.log(10))]
    start = [0.0, 3.5, 0.2, 0.5]
    best = optimize.minimize(loss, start, method="Nelder-Mead", bounds=bounds, tol=1e-10, options={"maxiter": 9000})
    log_c, v, b, log_k = best.x
    assert density == pytest.approx(each(best.x).mean(), abs=1e-4)
    assert likelihood.df.item() == pytest.approx(v, rel=1e-2)
    assert likelihood.stretch.item() == pytest.approx(math.exp(log_k), rel=1e-2)
    assert likelihood.trend[0].item() == pytest.approx(b / m.std(), rel=1e-2)
    sds = np.exp(log_c + b * t) / math.sqrt(1 - 2 / v)
    torch.testing.assert_close(likelihood.moments(outputs)[1][..., 0], torch.as_tensor(sds), rtol=5e-3, atol=0)
    assert sd_of(likelihood).item() == pytest.approx(math.sqrt((sds**2).mean()), rel=5e-3)  # what is told of it


def test_a_settled_prediction_by_hand():
    """Samples are stretched about their mean; noise goes by each sample's own output."""
    trend = [[0.5, 0.0], [1.0, 0.0], [0.0, -math.inf], [2.0, math.inf]]
    likelihood = settled(trend=trend, stretch=[3.0, 1.0])
    outputs = torch.tensor([[[1.0, 1.0], [9.0, 1.0]], [[2.0, 3.0], [9.0, 3.0]]]).double()
    p = likelihood.predict(outputs)
    torch.testing.assert_close(p.samples[..., 0], torch.tensor([[0.0, 9.0], [3.0, 9.0]]).double())
    torch.testing.assert_close(p.samples[..., 1], outputs[..., 1])
    up = math.exp(0.5)
    torch.testing.assert_close(p.noise_sd[..., 0], 0.4 * torch.tensor([[1.0, up], [up, up]]).double())
    torch.testing.assert_close(p.noise_sd[..., 1], torch.full((2, 2), 0.7).double())
    assert p.epistemic_sd[0].tolist() == pytest.approx([1.5, 1.0])
    beyond = torch.tensor([-9.0, -1.5, 0.0, 1.0, 2.0, 9.0]).double().view(1, -1, 1).expand(1, 6, 2)
    sds = [likelihood.moments(beyond)[1][0, :, 0]]
    trend[0][0] = -0.5
    sds.append(settled(trend=trend).moments(beyond.flip(1).neg() + 2)[1][0, :, 0].flip(0))
    for sd in sds:  # outside of the range that was seen noise does not fall, and is at most what was seen
        torch.testing.assert_close((sd / 0.4).log(), torch.tensor([0.5, 0.25, -0.5, 0.0, 0.5, 0.5]).double())
    one = likelihood.predict(outputs[:1])
    torch.testing.assert_close(one.samples, outputs[:1])  # one sample has nothing to be stretched from


def test_what_is_given_back_is_the_density_of_the_settled_prediction():
    """Without leverage: of two targets that depend on one another by the weights, the sum of each by itself."""
    g = torch.Generator().manual_seed(1)
    for noise, wide in (("learnt", 2), ("input", 4)):
        likelihood = pt.GaussianNoise(noise, num_targets=2).double()
        outputs = 0.3 * torch.randn(4, 60, wide, generator=g).double()
        y = torch.stack([draws_of(stats.t(3), 60), 5 * draws_of(stats.norm(), 60)], 1)
        density = likelihood.settle(likelihood.predict(outputs), y, torch.zeros(60, 2))
        p = likelihood.predict(outputs)
        assert isinstance(p, StudentPrediction)
        assert density == pytest.approx(p._log_mixture(y).sum(-1).mean().item(), rel=1e-6)


def test_a_weight_is_the_row_that_often():
    g = torch.Generator().manual_seed(2)
    outputs, y = torch.randn(3, 40, 1, generator=g).double(), draws_of(stats.t(3), 40)[:, None]
    weight = torch.randint(1, 4, (40,), generator=g)
    h = 0.5 * torch.rand(40, 1, generator=g).double()
    often = torch.arange(40).repeat_interleave(weight)
    one, other = pt.GaussianNoise("learnt").double(), pt.GaussianNoise("learnt").double()
    a = one.settle(one.predict(outputs), y, h, weight.double())
    b = other.settle(other.predict(outputs[:, often]), y[often], h[often])
    assert (a, one.rho.item(), one.df.item()) == pytest.approx((b, other.rho.item(), other.df.item()), rel=1e-4)


def test_targets_that_are_met_exactly_leave_some():
    likelihood = pt.GaussianNoise("learnt", num_targets=2)
    y = torch.tensor([[1.0, 5.0], [3.0, 5.0]])  # nor is a constant a reason for 0
    density = likelihood.settle(likelihood.predict(y.expand(3, 2, 2)), y, torch.zeros(2, 2))
    assert sd_of(likelihood)[0].item() == pytest.approx(1e-3, rel=1e-3)
    assert sd_of(likelihood)[1].item() > 0
    assert likelihood.df.tolist() == [math.inf] * 2
    assert math.isfinite(density)


@pytest.mark.parametrize("noise", ["learnt", "input"])
@pytest.mark.parametrize("y", [0.3, 0.0, 1e6])
def test_a_single_row(noise, y):
    likelihood = pt.GaussianNoise(noise)
    outputs = torch.zeros(2, 1, 2 if noise == "input" else 1)
    assert math.isfinite(likelihood.settle(likelihood.predict(outputs), torch.tensor([[y]]), torch.ones(1, 1)))
    p = likelihood.predict(outputs)
    assert p.sd.isfinite().all()
    assert (p.sd > 0).all()


def test_fixed_noise_and_single_draws_are_left():
    outputs, y, none = torch.randn(2, 5, 1), torch.randn(5, 1), torch.zeros(5, 1)
    fixed = pt.GaussianNoise(0.3)
    assert fixed.settle(fixed.predict(outputs), y, none) is None
    assert fixed.predict(outputs).aleatoric_sd.unique().item() == pytest.approx(0.3)
    learnt = pt.GaussianNoise("learnt")
    assert learnt.settle(learnt.predict(outputs[:1]), y, none) is None
    assert learnt.rho.item() == 0.0


@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_settled_noise_is_that_of_new_data(temperature):
    """A linear network with 30 weights for 150 data and its exact tempered posterior: residuals are too small."""
    g = torch.Generator().manual_seed(3)
    x, w = torch.randn(150, 30, generator=g).double(), torch.randn(30, 1, generator=g).double()
    h = (x @ torch.linalg.inv(x.T @ x) @ x.T).diagonal()[:, None]
    own, new = [], []
    for _ in range(20):
        y = x @ w + TRUE * torch.randn(150, 1, generator=g).double()
        best = torch.linalg.solve(x.T @ x, x.T @ y)
        likelihood = pt.GaussianNoise("learnt").double()
        likelihood.adapt((x @ best)[None], y, 1.0)
        own.append(sd_of(likelihood).item())
        root = torch.linalg.cholesky(temperature * own[-1] ** 2 * torch.linalg.inv(x.T @ x))
        draws = best + root @ torch.randn(64, 30, 1, generator=g).double()
        likelihood.settle(likelihood.predict(x @ draws), y, h)
        new.append(math.hypot(sd_of(likelihood).item(), own[-1] * math.sqrt(0.2 * temperature)))
    expected = TRUE * math.sqrt(1 + 30 / (150 - 30 - 1))  # of new rows of the same kind, spread and noise together
    assert sum(own) / 20 < 0.95 * TRUE
    assert sum(new) / 20 == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("noise", ["learnt", "input"])
def test_log_prob_is_scipys(noise):
    g = torch.Generator().manual_seed(4)
    likelihood = settled(noise)
    outputs, y = torch.randn(3, 5, 4 if noise == "input" else 2, generator=g).double(), torch.randn(5, 2).double()
    mean, sd = (t.detach().numpy() for t in likelihood.moments(outputs))
    heavy = stats.t(3, mean[..., 0], sd[..., 0] / math.sqrt(3)).logpdf(y[:, 0].numpy())
    normal = stats.norm(mean[..., 1], sd[..., 1]).logpdf(y[:, 1].numpy())
    expected = torch.as_tensor(heavy + normal)
    torch.testing.assert_close(likelihood.log_prob(outputs, y), expected)
    p = likelihood.predict(outputs)
    torch.testing.assert_close(p.log_prob(y), expected.logsumexp(0) - math.log(3))
    torch.testing.assert_close(p.expected_log_prob(y), expected.mean(0))
    torch.testing.assert_close(p.noise_sd, torch.as_tensor(sd))


def test_a_target_without_heavy_tails_is_gaussian_in_all_that_is_told():
    g = torch.Generator().manual_seed(5)
    outputs, y = torch.randn(3, 6, 2, generator=g).double(), torch.randn(6, 2, generator=g).double()
    p, plain = settled().predict(outputs), settled(df=(math.inf, math.inf)).predict(outputs)
    assert type(plain) is pt.RealPrediction
    for q in (0.03, 0.5, 0.9):
        torch.testing.assert_close(p.quantile(q)[:, 1], plain.quantile(q)[:, 1])
    torch.testing.assert_close(p.cdf(plain.quantile(0.9))[:, 1], torch.full((6,), 0.9).double())
    torch.testing.assert_close(p.entropy[:, 1], plain.entropy[:, 1], rtol=0, atol=2e-3)
    numbers = (p.crps(y), p.entropy, p.cdf(y), p.log_prob(y), p.sd, p.quantile(0.99), p.rescaled(1.0, 2.0).crps(y))
    assert all(number.isfinite().all() for number in numbers)
    assert p.to_numpy()["df"].tolist() == [[3.0, math.inf]] * 6


def test_infinite_freedom_changes_no_bit():
    g = torch.Generator().manual_seed(6)
    outputs, y = torch.randn(3, 6, 2, generator=g), torch.randn(6, 2, generator=g)
    learnt = pt.GaussianNoise("learnt", num_targets=2)
    sd = F.softplus(learnt.rho)
    plain = -(0.5 * ((y - outputs) / sd).square() + sd.expand_as(outputs).log() + 0.5 * math.log(2 * math.pi)).sum(-1)
    assert torch.equal(learnt.log_prob(outputs, y), plain)
    assert type(learnt.predict(outputs)) is pt.RealPrediction


@pytest.mark.parametrize("noise", ["learnt", "input"])
def test_a_training_begins_with_gaussian_noise(noise):
    likelihood, y = settled(noise), torch.randn(9, 2).double()
    before = {name: value.clone() for name, value in likelihood.state_dict().items()}
    likelihood.begin(y)
    assert likelihood.df.tolist() == [math.inf] * 2
    assert not likelihood.settled
    kept = "unit" if noise == "input" else "rho"
    assert torch.equal(likelihood.state_dict()[kept], before[kept])
    other = settled()
    other.adapt(torch.zeros(1, 9, 2).double(), y, 1.0)  # whose closed form is a Gaussian's
    assert other.df.tolist() == [math.inf] * 2


@pytest.mark.parametrize("noise", ["learnt", "input"])
def test_pooled(noise):
    one, other = settled(noise), settled(noise, df=(6.0, 10.0), sd=(0.8, 0.7))
    made = one.pooled([other])
    assert made.df.tolist() == pytest.approx([4.0, 20.0])
    sds = made.unit if noise == "input" else sd_of(made)
    assert sds.tolist() == pytest.approx([math.sqrt((0.4**2 + 0.8**2) / 2), 0.7])
    assert torch.equal(one.pooled([one]).df, one.df)
    one, other = (settled(noise, trend=[[b] * 2, [1.0] * 2, [-b] * 2, [b] * 2], stretch=[2.0] * 2) for b in (1.0, 3.0))
    assert one.pooled([other]).trend[:, 0].tolist() == [2.0, 1.0, -3.0, 3.0]
    assert one.pooled([other]).stretch.tolist() == [1.0] * 2
    assert one.pooled([]).stretch.tolist() == [2.0] * 2


def heavy(count, seed, outputs=1):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=g)
    noise = draws_of(stats.t(2.5, scale=TRUE), count * outputs, seed).view(count, outputs).float()
    return x, x.sum(1, keepdim=True) + noise


@pytest.mark.parametrize("noise", ["learnt", "input"])
def test_heavy_tailed_data_have_a_better_predictive(noise):
    likelihood = pt.GaussianNoise(noise)
    net = pt.bayesian(nn.Linear(3, 2 if noise == "input" else 1), likelihood=likelihood, seed=0)
    result = pt.fit(net, heavy(400, 0), epochs=60, batch_size=50, lr=0.03, seed=0)
    x, y = heavy(2000, 1)
    p = net.predict(x, seed=0)
    gaussian = pt.RealPrediction(p.mean, p.aleatoric_sd, p.epistemic_sd, p.samples, p.noise_sd)
    assert p.log_prob(y).mean() > gaussian.log_prob(y).mean() + 0.1
    assert result.ending["cross_validated"] == pytest.approx(p.log_prob(y).mean().item(), abs=0.15)
    assert 3.0 <= net.likelihood.df.item() < 5


def test_files_and_copies_keep_it(tmp_path):
    net = pt.bayesian(nn.Linear(3, 1), seed=0)
    x, y = heavy(200, 0)
    pt.fit(net, (x, y), epochs=20, batch_size=50, lr=0.03, out=tmp_path / "run")
    expected = net.predict(x, seed=0)
    assert isinstance(expected, StudentPrediction)
    pt.save(net, tmp_path / "net")
    again = pt.bayesian(nn.Linear(3, 1), seed=0)
    pt.fit(again, (x, y), epochs=20, batch_size=50, lr=0.03, out=tmp_path / "run", resume=True)
    for other in (pt.load(tmp_path / "net", nn.Linear(3, 1)), again):
        assert torch.equal(other.likelihood.df, net.likelihood.df)
        assert torch.equal(other.predict(x, seed=0).log_prob(y), expected.log_prob(y))
    predictor = net.predictor(seed=0)
    pt.save_predictor(predictor, tmp_path / "predictor")
    loaded = pt.load_predictor(tmp_path / "predictor", nn.Linear(3, 1))
    assert torch.equal(loaded(x).log_prob(y), predictor(x).log_prob(y))
    assert isinstance(loaded(x), StudentPrediction)


def test_files_from_before_are_gaussian(tmp_path):
    net = pt.bayesian(nn.Linear(3, 1), likelihood=pt.GaussianNoise("learnt"), seed=0)
    state = dict(net.state_dict())
    for name in ("df", "trend", "stretch"):
        del state[f"likelihood.{name}"]
    net.load_state_dict(net.state_dict() | {"likelihood.df": torch.tensor([4.0])})
    assert net.likelihood.settled
    net.load_state_dict(state)
    assert net.likelihood.df.tolist() == [math.inf]
    assert not net.likelihood.settled


def test_a_prolonged_training_is_that_at_once(tmp_path):
    data, common = heavy(200, 0), {"schedule": "constant", "batch_size": 50, "seed": 0, "temperature": 0.1}
    whole, parts = pt.bayesian(nn.Linear(3, 1), seed=0), pt.bayesian(nn.Linear(3, 1), seed=0)
    parts.load_state_dict(whole.state_dict())
    pt.fit(whole, data, epochs=20, **common)
    pt.fit(parts, data, epochs=12, out=tmp_path / "run", **common)
    assert parts.likelihood.df.isfinite()
    with pytest.warns(UserWarning, match="prolonged"):
        pt.fit(parts, data, epochs=20, out=tmp_path / "run", resume=True, **common)
    assert all(torch.equal(ours, parts.state_dict()[name]) for name, ours in whole.state_dict().items())


def test_an_ensemble_has_heavy_tails():
    net = pt.ensemble(pt.bayesian(nn.Linear(3, 1), seed=0), 2, seed=0)
    pt.fit(net, heavy(200, 0), epochs=20, batch_size=50, lr=0.03)
    assert isinstance(net.predict(heavy(5, 1)[0]), StudentPrediction)
