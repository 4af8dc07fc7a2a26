"""Every weight of every architecture is sampled or mapped by the rule: none is used at its mean."""

import copy

import pytest
import torch
from architectures import ARCHITECTURES, Tied, make
from running import outputs
from torch import nn

import posterity as pt
from posterity.estimators import LINEAR_RULES

EVERY = pytest.mark.parametrize("name", ARCHITECTURES)
EVERY_RULE = pytest.mark.parametrize("rule", LINEAR_RULES)
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
UNSEEN = {"batch norm": {"0.bias"}, "residual": {"body.0.bias"}}  # batch statistics absorb a shift


@EVERY
@EVERY_RULE
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_each_weight_tensor_alone_makes_the_output_random(name, rule, training):
    model, x = make(name)
    net = pt.bayesian(model, rho=-60.0, seed=1).train(training)
    state = copy.deepcopy(net.model.state_dict())
    for entry in net.layout.entries:
        if training and entry.name in UNSEEN.get(name, ()):
            continue
        with torch.no_grad():
            net.posterior.rho.fill_(-60.0)
            net.layout.views(net.posterior.rho)[entry.name].fill_(1.0)
            found = []
            for _ in range(2):
                net.model.load_state_dict(state)
                found.append(outputs(net, rule, x))
        assert all(f.isfinite().all() for f in found)
        assert (found[0] - found[1]).abs().max() > 1e-4, entry.name


@EVERY
@EVERY_RULE
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_gradient_reaches_every_mean_and_rho(name, rule, training):
    model, x = make(name)
    net = pt.bayesian(model, rho=-3.0, seed=1).train(training)
    out = outputs(net, rule, x, 2)
    (out * torch.randn_like(out)).sum().backward()
    for parameter in (net.posterior.mean, net.posterior.rho):
        for entry, view in net.layout.views(parameter.grad).items():
            if not (training and entry in UNSEEN.get(name, ())):
                assert view.abs().max() > 1e-8, entry


@EVERY
@EVERY_RULE
def test_without_sd_the_modules_own_output(name, rule):
    model, x = make(name)
    net = pt.bayesian(model, rho=-2000.0, seed=1).eval()
    torch.testing.assert_close(outputs(net, rule, x)[0], model.eval()(x), rtol=1e-4, atol=1e-5)


class Odd(nn.Module):
    """Uses of a weight that are no plain call of a linear map."""

    def __init__(self, use):
        super().__init__()
        self.weight, self.use = nn.Parameter(torch.randn(3, 3)), use

    def forward(self, x):
        return self.use(x, self.weight)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        return 2 * x @ weight

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return None, 2 * x.T @ grad


def own_function(x, closure):
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(own_function, (x,), x, closure)
    return x @ closure()


ODD_USES = {
    "transposed": lambda x, w: nn.functional.linear(x, w.T),
    "reshaped": lambda x, w: nn.functional.linear(x, w.view(9).view(3, 3)),
    "scaled": lambda x, w: nn.functional.linear(x, 2 * w),
    "matmul": lambda x, w: x @ w,
    "einsum": lambda x, w: torch.einsum("ni,ij->nj", x, w),
    "as input": lambda x, w: x @ nn.functional.linear(w, torch.eye(3)),
    "in a list": lambda x, w: torch.cat([x, w]),
    "detached": lambda x, w: x @ w.detach(),
    "data": lambda x, w: x @ w.data,
    "array": lambda x, w: x @ torch.as_tensor(w.detach().numpy()),
    "own function": lambda x, w: Double.apply(x, w),
    "operator": lambda x, w: torch.ops.aten.mm(x, w),
    "closure": lambda x, w: own_function(x, lambda: w),
    "vmap": lambda x, w: torch.vmap(lambda row: row @ w)(x),
}


@EVERY_RULE
@pytest.mark.parametrize("use", ODD_USES)
def test_other_uses_see_one_sample(use, rule):
    net = pt.bayesian(Odd(ODD_USES[use]), rho=0.5, seed=1)
    x = torch.randn(3, 3)
    out = outputs(net, rule, x, 200)
    assert out.isfinite().all()
    expected = net.outputs(x, samples=400)
    torch.testing.assert_close(out.std(0), expected.std(0), rtol=0.3, atol=0.0)
    if use not in ("detached", "data", "array"):
        out.sum().backward()
        assert net.posterior.rho.grad.abs().min() > 0


@EVERY_RULE
def test_asking_for_the_shape_is_no_use(rule):
    def use(x, w):
        assert (w.shape, w.dtype, w.dim(), len(w), w.requires_grad) == ((3, 3), x.dtype, 2, 3, True)
        return nn.functional.linear(x, w)

    net = pt.bayesian(Odd(use), rho=0.5, seed=1)
    out = outputs(net, rule, torch.ones(4, 3))
    assert not torch.allclose(out[0, 0], out[0, 1])


class Again(nn.Module):
    """A module called twice, and a batch norm whose statistics a pass changes."""

    def __init__(self):
        super().__init__()
        self.map, self.norm, self.head = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)

    def forward(self, x):
        return self.head(nn.functional.dropout(self.norm(self.map(self.map(x))), 0.3))


class Squared(nn.Module):
    """One linear map under two names, and its square, whose mean depends on the variance."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first

    def forward(self, x):
        return self.again(self.first(x))


@EVERY_RULE
@pytest.mark.parametrize(("build", "x"), [(Squared, torch.ones(1, 3)), (Tied, torch.tensor([[2, 1]]))])
def test_uses_of_a_weight_agree(rule, build, x):
    """Independent noise in each of its uses would give another distribution than q's weights do, 6 errors away."""
    net, count = pt.bayesian(build(), rho=1.0, seed=1), 800
    with torch.no_grad():
        found, expected = outputs(net, rule, x, count), net.outputs(x, samples=count)
    for power in (1, 2):
        a, b = found.pow(power), expected.pow(power)
        error = ((a.var(0) + b.var(0)) / count).sqrt()
        assert ((a.mean(0) - b.mean(0)).abs() < 4.5 * error).all()


@EVERY_RULE
def test_a_pass_that_was_taken_back_leaves_no_trace(rule):
    """The second network has learnt already what the first has to; both then go on alike."""
    torch.manual_seed(0)
    first, second = (pt.bayesian(copy.deepcopy(Again()), rho=-1.0, seed=1) for _ in range(2))
    second.load_state_dict(first.state_dict())
    x, state = torch.randn(5, 3), second.noise_source.state()
    outputs(second, rule, x)
    second.load_state_dict(first.state_dict())
    second.noise_source.restore(state)
    results = []
    for net in (first, second):
        torch.manual_seed(7)
        results.append((outputs(net, rule, x), torch.get_rng_state(), net.noise_source.state()))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


@EVERY_RULE
def test_no_gradient_and_several_samples(rule):
    model, x = make("mlp")
    net = pt.bayesian(model, rho=0.0, seed=1)
    with torch.no_grad():
        out = outputs(net, rule, x, 3)
    assert out.shape == (3, 5, 2)
    assert not out.requires_grad
    assert not torch.allclose(out[0], out[1])
