import math
import random

import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.data import Dataset
from posterity.training.range_test import broken, suggest

SMALL = {"inputs": 1, "outputs": 1, "width": 16, "rho": -4.0, "seed": 0, "likelihood": pt.GaussianNoise(0.1)}
RATES = [1e-6 * 10 ** (6 * i / 99) for i in range(100)]


def data():
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    return Dataset(x, torch.sin(3 * x), "regression")


def test_leaves_the_network_and_the_generators_as_they_were(network):
    net = network(**SMALL)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    noise, rng = net.noise_source.state(), torch.get_rng_state()
    pt.range_test(net, data(), steps=30)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(net.noise_source.state(), noise)
    assert torch.equal(torch.get_rng_state(), rng)


def test_rates_grow_exponentially_and_sgd_breaks(network):
    result = pt.range_test(network(**SMALL), data(), optimizer="sgd", low=1e-6, high=1e3, steps=150, temperature=0.0)
    ratios = [b / a for a, b in zip(result.rates, result.rates[1:], strict=False)]
    assert ratios == pytest.approx([1e9 ** (1 / 149)] * len(ratios))
    assert result.diverged is not None
    assert len(result.rates) == len(result.losses) == len(result.smoothed) < 150
    assert 1e-6 < result.suggestion < result.diverged


def test_one_group_alone(network):
    net = network(**SMALL)
    both = pt.range_test(net, data(), steps=20, temperature=0.0)
    means = pt.range_test(net, data(), steps=20, temperature=0.0, group="mean")
    sds = pt.range_test(net, data(), steps=20, temperature=0.0, group="sd")
    assert means.losses != both.losses != sds.losses
    assert means.losses[0] == both.losses[0] == sds.losses[0]  # the first loss is before any step


def noise(size, *, seed):
    source = random.Random(seed)
    return [source.gauss(0, size) for _ in RATES]


def fall(at, *, size=1.0, width=0.5):
    """A loss that falls from 2.3 by `size`, half of it at the rate `at`, over about `width` decades."""
    return [2.3 - size / (1 + math.exp(-math.log10(rate / at) * 4 / width)) for rate in RATES]


def test_noise_is_neither_a_fall_nor_a_break():
    for seed in range(30):
        for one_sided in (False, True):
            losses = [2.3 + (abs(e) if one_sided else e) for e in noise(0.3, seed=seed)]
            assert suggest(RATES, losses) is None
            assert all(broken(losses[:n]) is None for n in range(101))
    assert suggest(RATES, [2.3] * 100) is None
    assert suggest(RATES, [2.3 + 0.01 * i for i in range(100)]) is None  # it was rates[0] / 10


@pytest.mark.parametrize("at", [1e-4, 1e-2])
def test_a_clear_fall_gives_the_rate_of_its_half(at):
    assert suggest(RATES, fall(at)) == pytest.approx(at, rel=0.2)
    for seed in range(10):
        noisy = [a + b for a, b in zip(fall(at), noise(0.2, seed=seed), strict=True)]
        found = suggest(RATES, noisy)
        assert at / 4 < found < at * 4
        noisy[5:8] = [9.0, -9.0, 9.0]  # a few wild batches do not count
        assert suggest(RATES, noisy) == pytest.approx(found, rel=1.0)


def test_a_fall_that_drowns_in_noise_is_none():
    assert suggest(RATES, [a + b for a, b in zip(fall(1e-2, size=0.1), noise(0.3, seed=1), strict=True)]) is None


def test_a_break_is_found_and_kept_away_from():
    losses = [a + b for a, b in zip(fall(0.1), noise(0.05, seed=0), strict=True)]
    losses[90:] = [5.0 * 2**i for i in range(10)]
    assert broken(losses[:91]) is None  # one wild batch is none
    first = next(n for n in range(101) if broken(losses[:n]) is not None)
    assert first <= 93
    assert broken(losses[:first]) == 90
    assert suggest(RATES, losses[:90], RATES[90]) == pytest.approx(min(0.1, RATES[90] / 4), rel=0.2)
    assert suggest(RATES, losses[:15], RATES[15]) is None


def test_what_is_looked_at_is_what_the_group_can_change(network):
    net = network(**SMALL)
    both = pt.range_test(net, data(), steps=10, batch_size=64, temperature=1.0)
    sds = pt.range_test(net, data(), steps=10, batch_size=64, temperature=1.0, group="sd")
    assert (both.measure, sds.measure) == ("nll", "loss")
    kl = pt.kl_divergence(net.posterior, net.prior).item() / 64
    assert sds.losses[0] - both.losses[0] == pytest.approx(kl, rel=1e-4)


def test_the_kl_alone_is_no_reason_to_suggest_a_rate(make_net, digits):
    """A KL this large keeps the network from learning, while its standard deviations let the loss fall."""
    result = pt.range_test(make_net(width=64), digits.train.subset(torch.arange(200)), temperature=20.0)
    assert result.suggestion is None


def test_errors(network):
    with pytest.raises(UsageError, match="Did you mean 'mean'"):
        pt.range_test(network(**SMALL), data(), group="means")
    with pytest.raises(UsageError, match="at least 10 steps"):
        pt.range_test(network(**SMALL), data(), steps=3)
    with pytest.raises(UsageError, match="low to high"):
        pt.range_test(network(**SMALL), data(), low=1.0, high=0.1)
