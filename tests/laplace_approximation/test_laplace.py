"""Laplace's approximation: exact where it must be, its prior's scale against brute force, and what may follow it."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import DataError, UnknownNameError, UsageError
from posterity.laplace import evidence_factor
from posterity.objectives import kl_divergence
from posterity.posteriors import Full, MeanField

NOISE = 0.5


@pytest.fixture(scope="module")
def line():
    """Linear data in double precision, and the module that holds the exact posterior's mean under N(0, 1) weights."""
    g = torch.Generator().manual_seed(0)
    x = (
        torch.randn(30, 3, generator=g, dtype=torch.float64)
        @ torch.tensor([[1.0, 0.9, 0], [0, 0.5, 0], [0, 0, 2.0]]).double()
    )
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]).double() + NOISE * torch.randn(30, 1, generator=g, dtype=torch.float64)
    inputs = torch.cat([x, torch.ones(30, 1).double()], 1)
    precision = inputs.T @ inputs / NOISE**2 + torch.eye(4).double()
    mean = torch.linalg.solve(precision, inputs.T @ y / NOISE**2).squeeze(1)
    module = nn.Linear(3, 1).double()
    with torch.no_grad():
        module.weight.copy_(mean[None, :3])
        module.bias.copy_(mean[3:])
    return (x, y), module, mean, precision


@pytest.fixture(scope="module")
def classes():
    """A small classifier that was trained for a moment, and its data."""
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, (x, y)


def test_the_posterior_of_a_linear_model_is_exact(line):
    data, module, mean, precision = line
    kept = {"prior": 1.0, "likelihood": pt.GaussianNoise(NOISE)}
    net = pt.laplace(module, data, structure="last_layer", **kept)
    assert isinstance(net.posterior, Full)
    torch.testing.assert_close(net.posterior.mean.detach(), mean)
    torch.testing.assert_close(net.posterior.covariance().detach(), torch.linalg.inv(precision))
    net = pt.laplace(module, data, structure="diagonal", **kept)
    assert isinstance(net.posterior, MeanField)
    torch.testing.assert_close(net.posterior.variance().detach(), 1 / precision.diagonal())


def test_temperature_divides_the_curvature_of_the_data(line):
    data, module, _, precision = line
    options = {"prior": 1.0, "likelihood": pt.GaussianNoise(NOISE), "temperature": 0.1, "structure": "last_layer"}
    net = pt.laplace(module, data, **options)
    eye = torch.eye(4).double()
    torch.testing.assert_close(net.posterior.covariance().detach(), torch.linalg.inv(10 * (precision - eye) + eye))


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_logistic_regression_has_the_hessian(task):
    """Outputs linear in the weights: Gauss-Newton is the Hessian."""
    torch.manual_seed(0)
    x, labels = torch.randn(20, 3).double(), torch.arange(20) % 2
    data = pt.Dataset.from_arrays(x, labels if task == "classification" else labels.double(), task=task)
    model = nn.Linear(3, data.num_outputs).double()
    likelihood = pt.Categorical() if task == "classification" else pt.Bernoulli()
    net = pt.laplace(model, data, structure="last_layer", prior=0.7, temperature=1.0)
    assert net.likelihood.kind == likelihood.kind

    def energy(w):
        return -likelihood.log_prob(net.call(w, x)[None], data.y).sum() - net.prior.log_density(w)

    hessian = torch.autograd.functional.hessian(energy, net.posterior.mean.detach())
    torch.testing.assert_close(torch.linalg.inv(net.posterior.covariance().detach()), hessian)
    diagonal = pt.laplace(model, data, structure="diagonal", prior=0.7, temperature=1.0).posterior
    torch.testing.assert_close(1 / diagonal.variance().detach(), hessian.diagonal())


def test_the_noise_is_that_of_the_residuals(line):
    (x, y), module, _, _ = line
    given = pt.GaussianNoise("learnt")
    for likelihood in (None, given):
        net = pt.laplace(module, (x, y), likelihood=likelihood)
        assert net.likelihood.learnt()["noise"] == pytest.approx((y - module(x)).square().mean().sqrt().item())
    assert given.rho.item() == 0  # the caller's is left as it is


def evidence(hessian, weights, prior_precision, a):
    """log of Laplace's evidence, up to a constant, as it is defined."""
    prior = a * prior_precision
    return 0.5 * (
        prior.log().sum() - (prior * weights.square()).sum() - torch.linalg.slogdet(hessian + prior.diag())[1]
    )


@pytest.mark.parametrize("structure", ["diagonal", "last_layer"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_the_fitted_scale_has_the_largest_evidence(classes, structure, temperature):
    model, data = classes
    model = model.double()
    data = data[0].double(), data[1]
    options = {"structure": structure, "temperature": temperature}
    fixed, fitted = (pt.laplace(model, data, **options, fit_prior=fit) for fit in (False, None))
    ratio = fitted.prior.precision / fixed.prior.precision
    a = ratio[0].item()
    torch.testing.assert_close(ratio, torch.full_like(ratio, a))  # one factor: the prior keeps its shape
    q, prior = fixed.posterior, fixed.prior.precision
    precision = (1 / q.variance()).diag() if structure == "diagonal" else torch.linalg.inv(q.covariance())
    hessian = precision.detach() - prior.diag()
    grid = [a * 10 ** (k / 50) for k in range(-200, 201)]
    values = [evidence(hessian, q.mean.detach(), prior, b).item() for b in grid]
    assert values[200] == max(values)
    own = fitted.posterior
    found = (1 / own.variance()).diag() if structure == "diagonal" else torch.linalg.inv(own.covariance())
    torch.testing.assert_close(found.detach(), hessian + a * prior.diag(), rtol=1e-6, atol=1e-8)
    model.float()


def test_the_scale_by_hand_and_its_refusals():
    """One weight, g = 3, d = 0.5: a / 2 = 3 / (3 + a) has the root (sqrt(33) - 3) / 2."""
    assert evidence_factor(torch.tensor([3.0]).double(), 0.5) == pytest.approx((math.sqrt(33) - 3) / 2, rel=1e-12)
    with pytest.raises(UsageError, match="the weights are the prior's mean"):
        evidence_factor(torch.ones(3), 0.0)
    with pytest.raises(UsageError, match="the data say nothing"):
        evidence_factor(torch.zeros(3), 1.0)


@pytest.mark.parametrize("structure", ["diagonal", "last_layer"])
def test_it_predicts_is_saved_and_training_goes_on(classes, structure, tmp_path):
    model, (x, y) = classes
    before = {name: p.clone() for name, p in model.state_dict().items()}
    net = pt.laplace(model, (x, y), structure=structure, seed=3)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    torch.testing.assert_close(net.call(net.posterior.mean, x), model(x))
    prediction = net.predict(x, 64, seed=0)
    assert (prediction.label == y).float().mean() > 0.7
    assert prediction.epistemic.mean() > 0
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", model)
    assert torch.equal(loaded.predict(x, 4, seed=1).samples, net.predict(x, 4, seed=1).samples)
    assert math.isfinite(kl_divergence(net.posterior, net.prior).item())
    result = pt.fit(net, (x, y), epochs=3, batch_size=20, lr=0.01, out=tmp_path / "run")
    assert len(result.history) == 3
    again = pt.laplace(model, (x, y), structure=structure, seed=3)
    pt.fit(again, (x, y), epochs=3, batch_size=20, lr=0.01)
    assert torch.equal(again.posterior.mean, net.posterior.mean)
    resumed = pt.laplace(model, (x, y), structure=structure, seed=3)
    assert (
        len(pt.fit(resumed, (x, y), epochs=3, batch_size=20, lr=0.01, out=tmp_path / "run", resume=True).history) == 3
    )
    assert torch.equal(resumed.posterior.mean, net.posterior.mean)


def test_a_point_network_brings_its_prior_and_likelihood():
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    y = x[:, :1] + 0.1 * torch.randn(40, 1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    rule = pt.Parts({"0.*": pt.Gaussian(0.3, mean=0.1), "2.*": pt.Gaussian(0.8)})
    point = pt.bayesian(model, prior=rule, posterior="point", seed=0)
    pt.fit(point, (x, y), epochs=5, batch_size=10)
    noise = point.likelihood.learnt()
    net = pt.laplace(point, (x, y), structure="diagonal")
    assert torch.equal(net.prior.sd, point.prior.sd)
    assert torch.equal(net.prior.mean, point.prior.mean)
    assert net.likelihood.learnt() == noise
    assert point.posterior.kind == "point"
    last = pt.laplace(point, (x, y), structure="last_layer")
    assert last.layout.names == ["2.weight", "2.bias"]
    torch.testing.assert_close(last.prior.sd, torch.full((5,), 0.8))
    torch.testing.assert_close(last.call(last.posterior.mean, x), point(x))
    fitted = pt.laplace(point, (x, y), structure="diagonal", fit_prior=True)
    ratio = fitted.prior.sd / point.prior.sd
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert not torch.allclose(ratio, torch.ones(()))


def test_a_prior_that_is_given_is_kept_unless_told_otherwise(classes):
    model, data = classes

    def prior_sd(**options):
        return pt.laplace(model, data, structure="diagonal", **options).prior.sd

    default = pt.bayesian(model).prior.sd
    torch.testing.assert_close(prior_sd(prior=0.3), torch.full((45,), 0.3))
    assert not torch.allclose(prior_sd(), default)
    assert torch.equal(prior_sd(fit_prior=False), default)
    chosen = prior_sd(prior=pt.Gaussian(0.3), fit_prior=True)
    torch.testing.assert_close(chosen, prior_sd(prior=3.0, fit_prior=True))  # whose scale was no more than a start


def test_some_rows_stand_for_all(classes):
    model, (x, y) = classes
    kept = {"prior": 0.5, "structure": "diagonal"}

    def curvature(net):
        return 1 / net.posterior.variance().detach() - 4

    whole = curvature(pt.laplace(model, (x, y), **kept))
    doubled = curvature(pt.laplace(model, (torch.cat([x, x]), torch.cat([y, y])), **kept))
    torch.testing.assert_close(doubled, 2 * whole, rtol=1e-3, atol=1e-3)
    several = [curvature(pt.laplace(model, (x, y), rows=30, seed=s, **kept)) for s in range(40)]
    torch.testing.assert_close(torch.stack(several).mean(0).sum(), whole.sum(), rtol=0.05, atol=0)
    assert torch.equal(several[0], curvature(pt.laplace(model, (x, y), rows=30, seed=0, **kept)))
    assert not torch.equal(several[0], several[1])


def test_dropout_and_norms_are_as_in_a_prediction(module):
    model = module(norm=True, dropout=True)
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    a, b = (
        pt.laplace(model.train(), (x, y), structure="diagonal", prior=1.0, batch_size=size).posterior.sd
        for size in (20, 7)
    )
    torch.testing.assert_close(a, b)
    assert model.training
    assert torch.equal(model[1].running_mean, torch.zeros(4))


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))

    torch.manual_seed(0)
    model, x = Tied(), torch.randn(10, 3)
    data = (x, torch.arange(10) % 2)
    for structure in ("diagonal", "last_layer"):
        net = pt.laplace(model, data, structure=structure)
        torch.testing.assert_close(net.call(net.posterior.mean, x), model(x))
    assert net.model.second.weight is net.model.first.weight


def test_refusals(classes):
    model, (x, y) = classes
    for message, options in (
        ("unknown structure 'kron'.* Known: diagonal, last_layer", {"structure": "kron"}),
        ("rows must be at least 1, not 0", {"rows": 0}),
        ("batch_size must be at least 1, not -1", {"batch_size": -1}),
        ("needs a Gaussian prior.* laplace one", {"prior": pt.Laplace()}),
        ("the weights are the prior's mean", {"prior": pt.Gaussian(1.0, mean="pretrained"), "fit_prior": True}),
    ):
        with pytest.raises((UsageError, UnknownNameError), match=message):
            pt.laplace(model, (x, y), **options)
    with pytest.raises(UsageError, match="point posterior; this one's is mean_field"):
        pt.laplace(pt.bayesian(model), (x, y))
    with pytest.raises(UsageError, match="a prior of its own"):
        pt.laplace(pt.bayesian(model, posterior="point"), (x, y), prior=1.0)
    with pytest.raises(DataError, match="cannot take inputs"):
        pt.laplace(model, (torch.randn(60, 4), y))


def test_the_mean_field_start_is_better_than_a_blind_one(classes):
    """Per weight the sd that the data leave: the ELBO is better than at the default rho with the same prior."""
    model, (x, y) = classes
    net = pt.laplace(model, (x, y), structure="diagonal", seed=0)
    blind = pt.bayesian(model, seed=0)
    blind.prior = net.prior
    losses = [pt.negative_elbo(n, pt.Categorical(), x, y, num_data=60, samples=200).item() for n in (net, blind)]
    assert losses[0] < losses[1]


@pytest.mark.filterwarnings("ignore")  # the peer's
@pytest.mark.parametrize(
    ("structure", "subset", "form"), [("diagonal", "all", "diag"), ("last_layer", "last_layer", "full")]
)
def test_it_agrees_with_laplace_torch(classes, structure, subset, form):
    peer = pytest.importorskip("laplace", reason="laplace-torch is not installed")
    model, (x, y) = classes
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
    options = {"subset_of_weights": subset, "hessian_structure": form, "prior_precision": 4.0}
    theirs = peer.Laplace(model, "classification", **options)
    theirs.fit(loader)
    kept = {"structure": structure, "prior": 0.5, "temperature": 1.0}
    ours = pt.laplace(model, (x, y), **kept).posterior
    if structure == "diagonal":
        torch.testing.assert_close(ours.variance().detach(), theirs.posterior_variance, rtol=1e-3, atol=0)
    else:
        torch.testing.assert_close(ours.covariance().detach(), theirs.posterior_covariance, rtol=1e-3, atol=1e-5)
    theirs.optimize_prior_precision(pred_type="glm", method="marglik", n_steps=500, lr=0.1)
    fitted = pt.laplace(model, (x, y), **kept, fit_prior=True).prior
    assert fitted.precision[0].item() == pytest.approx(theirs.prior_precision.item(), rel=1e-2)
