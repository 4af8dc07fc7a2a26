import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.layout import Layout
from posterity.priors import FlatGaussian, Gaussian, kaiming


def bound(prior, model=None):
    model = model or nn.Sequential(nn.Linear(8, 2), nn.Conv2d(4, 6, 3, groups=2))
    layout = Layout.of(model)
    weights = layout.flatten(dict(model.named_parameters())).detach()
    return prior.bind(layout, weights), layout, weights


# Linear: n_in 8, n_out 2; convolution: n_in 2 * 9, n_out 3 * 9.
@pytest.mark.parametrize(
    ("scale", "linear", "conv"),
    [
        (0.3, 0.3, 0.3),
        ("kaiming", 0.5, 1 / 3),
        ("xavier", math.sqrt(0.2), math.sqrt(2 / 45)),
        ("glorot", math.sqrt(1 / 8), math.sqrt(1 / 18)),
        ("torch", math.sqrt(1 / 24), math.sqrt(1 / 54)),
        (kaiming(0.0), 0.5, 1 / 3),
        (kaiming(1.0), math.sqrt(1 / 8), math.sqrt(1 / 18)),
        (lambda n_in, n_out: n_in + n_out, 10, 45),
    ],
)
def test_scale_rules(scale, linear, conv):
    prior, layout, _ = bound(Gaussian(scale))
    sds = layout.views(prior.sd)
    expected = {"0.weight": linear, "0.bias": linear, "1.weight": conv, "1.bias": conv}
    for name, sd in expected.items():
        torch.testing.assert_close(sds[name], torch.full_like(sds[name], sd))


def test_means():
    model = nn.Linear(3, 2)
    zero, layout, weights = bound(Gaussian(1.0), model)
    assert zero.centre is None
    assert torch.equal(zero.mean.expand(8), torch.zeros(8))
    assert torch.equal(bound(Gaussian(1.0, mean=0.5), model)[0].mean, torch.full((8,), 0.5))
    assert torch.equal(bound(Gaussian(1.0, mean="pretrained"), model)[0].mean, weights)
    given = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor([7.0, 8.0])}
    assert torch.equal(bound(Gaussian(1.0, mean=given), model)[0].mean, layout.flatten(given))


def test_pretrained_mean_is_a_copy():
    prior, _, weights = bound(Gaussian(1.0, mean="pretrained"))
    before = weights.clone()
    weights += 1
    assert torch.equal(prior.mean, before)


@pytest.mark.parametrize("centred", [False, True])
def test_log_density_agrees_with_torch(centred):
    g = torch.Generator().manual_seed(0)
    sd = torch.rand(6, generator=g, dtype=torch.float64) + 0.1
    mean = torch.randn(6, generator=g, dtype=torch.float64) if centred else None
    prior = FlatGaussian(sd, mean)
    normal = Normal(mean if centred else torch.zeros(6).double(), sd)
    weights = torch.randn(4, 6, generator=g, dtype=torch.float64)
    torch.testing.assert_close(prior.sd, sd)
    torch.testing.assert_close(prior.log_density_by_weight(weights), normal.log_prob(weights))
    torch.testing.assert_close(prior.log_density(weights), normal.log_prob(weights).sum(-1))
    torch.testing.assert_close(prior.sample(weights), normal.loc + sd * weights)


def test_prior_is_no_parameter():
    prior, *_ = bound(Gaussian("kaiming", mean=1.0))
    assert list(prior.parameters()) == []
    assert {"centre", "precision"} <= set(prior.state_dict())


@pytest.mark.parametrize("scale", [0, -1.0, math.inf, math.nan])
def test_wrong_scales(scale):
    with pytest.raises(UsageError, match="positive number"):
        bound(Gaussian(scale))


def test_unknown_rule_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"'kaimin'\. Did you mean 'kaiming'"):
        bound(Gaussian("kaimin"))


def test_wrong_means():
    with pytest.raises(UsageError, match="'pretraind'"):
        bound(Gaussian(1.0, mean="pretraind"))
    with pytest.raises(UsageError, match="no weights given for bias"):
        bound(Gaussian(1.0, mean={"weight": torch.zeros(2, 3)}), nn.Linear(3, 2))
    with pytest.raises(UsageError, match=r"shape \(3, 2\); expected \(2, 3\)"):
        bound(Gaussian(1.0, mean={"weight": torch.zeros(3, 2), "bias": torch.zeros(2)}), nn.Linear(3, 2))


def test_precisions_are_single_numbers_where_they_can_be():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    layout = Layout.of(model)
    prior = Gaussian("kaiming").bind(layout, torch.zeros(layout.num_weights))
    assert [p.numel() for p in prior.precisions(layout)] == [1, 1, 1, 1]
    # Loading another prior, or another dtype, must not leave the old numbers behind.
    varied = torch.arange(1.0, layout.num_weights + 1)
    prior.load_state_dict(FlatGaussian(varied.rsqrt()).state_dict())
    torch.testing.assert_close(torch.cat(prior.precisions(layout)), varied)
    prior.to(torch.float64)
    assert prior.precisions(layout)[0].dtype == torch.float64


def test_a_narrow_prior_is_wider_where_there_are_few_weights():
    """sqrt(max(1 / (20 n_in), 4 / N)), which is the default."""
    many, layout, _ = bound(Gaussian(), nn.Sequential(nn.Linear(100, 90), nn.Linear(90, 1)))
    assert layout.num_weights == 9181
    sds = [part[0].item() for part in many.sd.split(layout.sizes)]
    assert sds == pytest.approx([math.sqrt(1 / 2000)] * 2 + [math.sqrt(1 / 1800)] * 2)
    few, layout, _ = bound(Gaussian("narrow"), nn.Sequential(nn.Linear(1, 50), nn.Linear(50, 1)))
    sds = [part[0].item() for part in few.sd.split(layout.sizes)]
    assert sds == pytest.approx([math.sqrt(1 / 20)] * 2 + [math.sqrt(4 / 151)] * 2)


def test_the_torch_scale_is_that_of_pytorchs_own_initialisation():
    layer = nn.Linear(400, 300)
    prior, _, weights = bound(Gaussian("torch"), layer)
    assert weights[: layer.weight.numel()].std().item() == pytest.approx(prior.sd[0].item(), rel=0.01)
