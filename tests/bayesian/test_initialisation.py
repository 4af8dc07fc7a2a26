import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError
from posterity.initialisation import DRAWN, drawn_places


class Norms(nn.Module):
    """A linear map, norms of one and of two axes, an embedding, attention, a vector of its own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(300, 200)
        self.batch, self.layer, self.rms = nn.BatchNorm1d(200), nn.LayerNorm((20, 10)), nn.RMSNorm((20, 10))
        self.words, self.attention = nn.Embedding(50, 200), nn.MultiheadAttention(8, 2)
        self.temperature = nn.Parameter(torch.ones(3))


DRAWN_NAMES = {
    "fc.weight", "fc.bias", "words.weight", "attention.in_proj_weight", "attention.in_proj_bias",
    "attention.out_proj.weight", "attention.out_proj.bias",
}  # fmt: skip


def views(net, vector=None):
    return net.layout.views((net.posterior.mean if vector is None else vector).detach())


def norms(**options):
    torch.manual_seed(0)
    model = Norms()
    return dict(model.named_parameters()), pt.bayesian(model, **{"seed": 0, **options})


def test_the_module_is_the_default():
    own, net = norms()
    assert all(torch.equal(view, own[name]) for name, view in views(net).items())


@pytest.mark.parametrize("init", DRAWN)
def test_weights_and_their_biases_are_drawn_and_all_else_is_kept(init):
    own, net = norms(init=init)
    changed = {name for name, view in views(net).items() if not torch.equal(view, own[name])}
    assert changed == DRAWN_NAMES
    places = views(net, drawn_places(Norms(), net.layout))
    assert {name for name, view in places.items() if view.all()} == DRAWN_NAMES


@pytest.mark.parametrize(
    ("init", "sd"),
    [("kaiming", math.sqrt(2 / 300)), ("xavier", math.sqrt(2 / 500)), ("glorot", math.sqrt(1 / 300))],
)
def test_normal_with_the_rules_sd(init, sd):
    _, net = norms(init=init)
    weight = views(net)["fc.weight"].double()
    n = weight.numel()
    assert abs(weight.mean().item()) < 4 * sd / n**0.5
    assert weight.std().item() == pytest.approx(sd, rel=4 / (2 * n) ** 0.5)
    assert (weight / sd).pow(4).mean().item() == pytest.approx(3, abs=4 * (96 / n) ** 0.5)
    assert views(net)["fc.bias"].std().item() == pytest.approx(sd, rel=0.2)


@pytest.mark.parametrize("centre", [0.0, 2.0])
def test_uniform_with_the_priors_mean_and_sd(centre):
    _, net = norms(init="uniform", prior=pt.Gaussian(0.1, mean=centre))
    weight = views(net)["fc.weight"].double() - centre
    edge = math.sqrt(3) * 0.1
    assert weight.abs().max() <= edge * (1 + 1e-6)
    assert weight.abs().max() > 0.999 * edge
    assert weight.std().item() == pytest.approx(0.1, rel=0.01)
    assert abs(weight.mean().item()) < 4 * 0.1 / weight.numel() ** 0.5


def test_the_seed_decides():
    means = [norms(init="kaiming", seed=seed)[1].posterior.mean for seed in (0, 0, 1)]
    assert torch.equal(means[0], means[1])
    assert not torch.equal(means[0], means[2])
    model, state = nn.Linear(3, 2), torch.get_rng_state()
    pt.bayesian(model, init="kaiming", seed=0)
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is left alone


def test_given_weights_and_a_prior_that_moves_with_them():
    model = nn.Linear(3, 2)
    given = {"weight": torch.full((2, 3), 0.5, dtype=torch.float64), "bias": torch.ones(2)}
    net = pt.bayesian(model, init=given, prior=pt.Gaussian(0.1, mean="pretrained"))
    assert torch.equal(net.posterior.mean, torch.tensor([0.5] * 6 + [1.0] * 2))
    assert torch.equal(net.prior.mean, net.posterior.mean)
    assert net.posterior.mean.dtype == torch.float32
    only = pt.bayesian(model, init={"bias": torch.ones(2)}, select="bias")
    assert torch.equal(only.posterior.mean, torch.ones(2))


@pytest.mark.parametrize(("init", "sd"), [("kaiming", math.sqrt(2 / 300)), ("uniform", 0.1)])
def test_sds_start_where_the_means_were_drawn(init, sd):
    _, net = norms(init=init, prior=0.1, relative_sd=0.5, relative_to="init")
    found = views(net, net.posterior.sd)
    torch.testing.assert_close(found["fc.weight"], torch.full((200, 300), 0.5 * sd))
    torch.testing.assert_close(found["batch.weight"], torch.full((200,), math.log1p(math.exp(-5.0))))  # was not drawn


@pytest.mark.parametrize("rho", [-10.0, -5.0, -3.7, -0.57, 0.0, 1.3, 25.0])
@pytest.mark.parametrize("kind", ["mean_field", "low_rank", "tied"])
def test_rho_is_what_was_given_to_the_last_bit(rho, kind):
    found = pt.bayesian(nn.Linear(3, 2), posterior=kind, rho=rho).posterior.rho
    assert torch.equal(found, torch.full_like(found, rho))


def test_an_sd_of_zero_leaves_rho_finite():
    posterior = pt.bayesian(nn.Linear(3, 2), rho=-2000.0).posterior
    assert posterior.rho.isfinite().all()
    assert (posterior.sd == 0).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rho": math.nan}, "rho must be a number, not nan"),
        ({"relative_sd": -1.0}, "positive, not -1.0"),
        ({"relative_sd": math.inf}, "positive, not inf"),
        ({"init": 3}, "not a int"),
        ({"init": {"weight": torch.ones(2, 3)}}, "no weights given for bias"),
        ({"init": {"weight": torch.ones(3, 2), "bias": torch.ones(2)}}, r"shape \(3, 2\)"),
        ({"relative_to": "init"}, "goes with a relative_sd"),
        ({"relative_to": "init", "relative_sd": 1.0}, "not with relative_sd 1.0 and init 'module'"),
        ({"relative_to": "init", "relative_sd": 1.0, "init": {}}, "by given weights"),
    ],
)
def test_wrong_values(options, match):
    with pytest.raises(UsageError, match=match):
        pt.bayesian(nn.Linear(3, 2), **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"init": "kaimin"}, "Did you mean 'kaiming'"),
        ({"relative_to": "priors", "relative_sd": 1.0}, "Did you mean 'prior'"),
        ({"init": {"weights": torch.ones(2, 3)}}, "Did you mean 'weight'"),
    ],
)
def test_unknown_names_suggest_the_nearest(options, match):
    with pytest.raises(UnknownNameError, match=match):
        pt.bayesian(nn.Linear(3, 2), **options)
