"""Training with penalties, other priors and a learnt scale: what is minimised, recorded, saved and resumed."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity import data
from posterity.core.errors import UsageError
from posterity.experiments import Run, load_run
from posterity.experiments.build import build_network
from posterity.likelihoods import Categorical
from posterity.objectives import kl_by_weight
from posterity.priors import PENALTIES, FlatPenalty, FromPenalty
from posterity.training import Settings

QUICK = {"epochs": 2, "batch_size": 20, "lr": 1e-2, "temperature": 1.0}


class Break(Exception):
    pass


class Crash(pt.Callback):
    def __init__(self, step=None):
        self.step = step

    def on_step(self, training, loss):
        if training.step == self.step:
            raise Break


@pytest.mark.parametrize("posterior", ["point", "mean_field"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_penalty_in_training(make_net, small, penalty, posterior):
    """Its record is consistent, and the loss is nll + factor sum_l lambda_l r(w_l) / num_data for a point."""
    net = make_net(posterior=posterior)
    last = pt.fit(net, small, penalty=penalty, penalty_factor=0.5, **QUICK).history[-1]
    assert isinstance(net.prior, FlatPenalty)
    assert last["loss"] == pytest.approx(last["nll"] + last["kl"] / len(small))
    assert last["kl"] == pytest.approx(sum(last["kl_by_layer"].values()), rel=1e-4)
    if posterior == "point":
        by_hand = FromPenalty(penalty, 0.5).bind(net.layout, net.posterior.mean).penalty_by_weight(net.posterior.mean)
        assert last["kl"] == pytest.approx(by_hand.sum().item(), rel=1e-5)


@pytest.mark.parametrize("posterior", ["point", "mean_field"])
@pytest.mark.parametrize(
    "rule",
    [FromPenalty("group_lasso_columns"), FromPenalty("l1"), pt.Laplace(), pt.ScaleMixture(), pt.StudentT(0.3)],
    ids=repr,
)
def test_gradient_of_the_loss_with_any_prior(make_net, small, rule, posterior):
    """Against finite differences of the total, with the same weight noise."""
    net = make_net(prior=rule, posterior=posterior, width=2).double()
    x, y = small.x.double(), small.y

    def total():
        net.noise_source = type(net.noise_source)(5)
        return pt.negative_elbo(net, Categorical(), x, y, num_data=60)

    total().backward()
    for parameter in net.posterior.parameters():
        for place in range(0, net.num_weights, 31):
            values = []
            for change in (1e-6, -1e-6):
                with torch.no_grad():
                    parameter[place] += change
                values.append(total().item())
                with torch.no_grad():
                    parameter[place] -= change
            slope = (values[0] - values[1]) / 2e-6
            assert slope == pytest.approx(parameter.grad[place].item(), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("prior", [pt.Gaussian("kaiming"), pt.Laplace("kaiming", mean="pretrained")])
def test_a_learnt_prior_fits_its_weights_and_resumes(make_net, small, tmp_path, same, prior):
    def run(out, crash=None, **options):
        return pt.fit(
            make_net(prior=prior), small, out=out, learn_prior=True, epochs=3, batch_size=16, lr=1e-2,
            checkpoint_seconds=0, callbacks=[Crash(crash)], **options,
        )  # fmt: skip

    whole = run(tmp_path / "whole")
    sd, q = whole.net.layout.views(whole.net.prior.sd), whole.net.posterior
    assert all(len(view.unique()) == 1 for view in sd.values())
    if isinstance(prior, pt.Gaussian):
        square = whole.net.layout.views(q.mean.detach().square() + q.sd.detach().square())
        for name, view in sd.items():
            assert view.flatten()[0].item() == pytest.approx(math.sqrt(square[name].mean().item()), rel=1e-5)
    with pytest.raises(Break):
        run(tmp_path / "run", crash=7)
    again = run(tmp_path / "run", resume=True)
    assert same(dict(again.net.state_dict()), dict(whole.net.state_dict()))


def test_a_learnt_prior_lowers_the_kl(make_net, small):
    plain, learnt = (pt.fit(make_net(), small, learn_prior=on, **QUICK).history for on in (False, True))
    assert learnt[-1]["kl"] < plain[-1]["kl"]


def test_mistakes(make_net, small):
    with pytest.raises(UsageError, match="unknown penalty 'l3'"):
        Settings.of(penalty="l3")
    with pytest.raises(UsageError, match="penalty_factor"):
        Settings.of(penalty="l1", penalty_factor=-1.0)
    with pytest.raises(UsageError, match="student_t prior cannot be learnt"):
        pt.fit(make_net(prior=pt.StudentT()), small, learn_prior=True)
    with pytest.raises(UsageError, match="leave out prior_scale"):
        build_network(Run(penalty="l1", prior_scale=0.3, model="mlp"), small)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (("--prior", "laplace", "--learn-prior"), "laplace"),
        (("--prior", "mixture"), "mixture"),
        (("--prior", "student_t", "--prior-scale", "0.5"), "student_t"),
        (("--penalty", "group_lasso_rows", "--penalty-factor", "0.5"), "penalty"),
        ((), "gaussian"),
    ],
)
def test_from_the_command_line(train, flags, kind, tmp_path):
    done = train("run", *flags, "--json")
    assert done.code == 0, done.err
    trained = load_run(tmp_path / "run")
    assert trained.net.prior.kind == kind
    again = train("run", "--resume")
    assert again.code == 0, again.err


def test_unknown_priors_on_the_command_line(train):
    assert train("run", "--prior", "cauchy").code == 2
    assert train("run", "--penalty", "l3").code == 2
    done = train("run", "--penalty", "l1", "--learn-prior")
    assert done.code == 2
    assert "leave out learn_prior" in done.err


@pytest.mark.parametrize(
    "rule", [pt.Laplace(0.5), pt.StudentT(0.5), pt.ScaleMixture(), FromPenalty("l1"), FromPenalty("l2")], ids=repr
)
def test_low_rank_with_any_prior_of_independent_weights(make_net, small, rule):
    net = make_net(posterior="low_rank", rank=3, prior=rule)
    history = pt.fit(net, small, epochs=2).history
    with torch.no_grad():
        weights = net.posterior.sample(net.noise(20_000))
        values = net.posterior.log_density(weights) - net.prior.log_density(weights)
    assert abs(values.mean().item() - history[-1]["kl"]) < 5 * values.std().item() / len(values) ** 0.5 + 1e-3
    kl = pt.kl_divergence(net.posterior, net.prior).item()
    assert kl == pytest.approx(kl_by_weight(net.posterior, net.prior).sum().item(), rel=1e-4)


def test_low_rank_with_groups_is_refused_before_training(make_net, small):
    net = make_net(posterior="low_rank", rank=3, prior=FromPenalty("group_lasso_rows"))
    with pytest.raises(UsageError, match="mean_field"):
        pt.fit(net, small, epochs=1)


def test_a_learnt_prior_at_temperature_1_does_not_collapse():
    """It once drove a small regression to predicting the mean, by sds and a noise that had not left their start."""
    splits = data.load("diabetes", seed=0)
    train = pt.Standardisation.of(splits.train).apply(splits.train)
    torch.manual_seed(0)
    net = pt.bayesian(nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 1)), seed=0)
    last = pt.fit(net, train, epochs=200, temperature=1.0, learn_prior=True).history[-1]
    assert last["rmse"] < 0.8  # the mean alone has 1
    assert (net.prior.sd > 1e-3).all()
