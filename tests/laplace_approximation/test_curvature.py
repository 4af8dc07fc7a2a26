"""The Gauss-Newton matrix against its definition, J^T L J, with J and L by autograd."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity import curvature as source
from posterity.core.errors import UsageError
from posterity.curvature import Curvature, output_factors


class Twice(nn.Module):
    """A layer that is used twice, and one whose weights are used again beside it."""

    def __init__(self):
        super().__init__()
        self.same, self.other, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        h = torch.tanh(self.same(torch.tanh(self.same(x))))
        return self.head(torch.tanh(self.other(h)) + h @ self.other.weight)


class Sequences(nn.Module):
    """A layer over a sequence, batch first or not, and scales of a norm."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.each, self.norm, self.head = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, x):
        h = self.each(x) if self.batch_first else self.each(x.transpose(0, 1)).transpose(0, 1)
        return self.head(self.norm(torch.tanh(h)).mean(1))


class Recurrent(nn.Module):
    """What vmap has no rule for."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(3, 2, batch_first=True), nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Attentive(nn.Module):
    """Tokens, and attention, which vmap runs row by row."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 2)
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)

    def forward(self, x):
        return self.head(self.layer(self.embed(x)).mean(1))


class InPlace(nn.Module):
    """Changes a layer's output in place."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(self.first(x).add_(1).tanh_())


def convolutional(**options):
    kept = {"padding_mode": "circular", "padding": 1} if "circular" in options else options
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, **kept), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Flatten(),
        nn.LazyLinear(3),
    )  # fmt: skip


NETS = {
    "linear": (lambda: nn.Linear(3, 2), (3,)),
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)), (3,)),
    "no bias": (lambda: nn.Sequential(nn.Linear(3, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)), (3,)),
    "convolution": (lambda: convolutional(padding=1), (2, 6, 6)),
    "strided, dilated": (lambda: convolutional(stride=2, dilation=2, padding=2), (2, 8, 8)),
    "groups": (lambda: convolutional(groups=2, padding=1), (2, 6, 6)),
    "padding by name": (lambda: convolutional(padding="same"), (2, 6, 6)),
    "circular": (lambda: convolutional(circular=True), (2, 6, 6)),
    "used twice": (Twice, (3,)),
    "batch first": (lambda: Sequences(True), (6, 3)),
    "batch second": (lambda: Sequences(False), (6, 3)),
    "recurrent": (Recurrent, (4, 3)),
    "in place": (InPlace, (3,)),
    "tokens, attention": (Attentive, None),
}
LIKELIHOODS = {
    "classes": (pt.Categorical, lambda n, k: torch.arange(n) % k),
    "real": (lambda: pt.GaussianNoise(0.7), lambda n, k: torch.randn(n, k).double()),
}


def build(name, rows=6):
    model, shape = NETS[name]
    torch.manual_seed(0)
    module = model().double()
    x = torch.randint(5, (rows, 3)) if shape is None else torch.randn(rows, *shape).double()
    with torch.no_grad():
        module(x)  # lazy layers, and statistics of norms
    return pt.bayesian(module, posterior="point", seed=0), x


def explicit(net, likelihood, x, y):
    """sum_n J_n^T L_n J_n (N, N), one row at a time."""
    net.eval()
    mean, total = net.posterior.mean.detach(), 0
    for row, target in zip(x, y, strict=True):
        outputs = net.call(mean, row[None])[0].detach()
        hessian = torch.autograd.functional.hessian(
            lambda f, t=target: -likelihood.log_prob(f[None, None], t[None]).sum(), outputs
        )
        jacobian = torch.autograd.functional.jacobian(lambda w, r=row: net.call(w, r[None])[0], mean)
        total = total + jacobian.T @ hessian @ jacobian
    return total


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", NETS)
def test_the_diagonal_is_that_of_its_definition(name, likelihood):
    net, x = build(name)
    kind, targets = LIKELIHOODS[likelihood]
    y = targets(len(x), net.eval().call(net.posterior.mean.detach(), x).shape[1])
    found = Curvature(net, kind(), batch_size=4).diagonal(x, y)
    torch.testing.assert_close(found, explicit(net, kind(), x, y).diagonal())


def test_layers_that_are_used_once_have_a_formula_and_others_not():
    known = {name: Curvature(build(name)[0], pt.Categorical(), batch_size=4)._faithful(build(name)[1]) for name in NETS}
    assert known["mlp"] == {"0", "2"}
    assert known["convolution"] == known["strided, dilated"] == {"0", "5"}
    assert known["groups"] == known["circular"] == known["padding by name"] == {"5"}
    assert known["used twice"] == {"head"}
    assert known["batch first"] == {"each", "head"}
    assert known["batch second"] == {"head"}  # 6 rows, 6 places: only the gradient of a single row tells them apart


@pytest.mark.parametrize("name", ["linear", "mlp", "no bias", "convolution", "recurrent"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_last_layer_is_a_block_of_the_whole(name, likelihood):
    net, x = build(name)
    kind, targets = LIKELIHOODS[likelihood]
    y = targets(len(x), net.eval().call(net.posterior.mean.detach(), x).shape[1])
    names, found = Curvature(net, kind(), batch_size=4).last_layer(x, y)
    whole = explicit(net, kind(), x, y)
    places = torch.cat([net.layout.flatten({n: torch.full(e.shape, float(n in names)) for n, e in
                                            ((e.name, e) for e in net.layout.entries)})]).bool()  # fmt: skip
    assert names == net.layout.names[-len(names) :]
    torch.testing.assert_close(found, whole[places][:, places])


def test_memory_is_bounded_by_smaller_parts(monkeypatch):
    net, x = build("batch second")
    y = torch.arange(6) % 2
    whole = Curvature(net, pt.Categorical(), batch_size=6).diagonal(x, y)
    monkeypatch.setattr(source, "CHUNK", 1)
    torch.testing.assert_close(Curvature(net, pt.Categorical(), batch_size=6).diagonal(x, y), whole)


def test_curvature_in_the_outputs_by_hand():
    logits = torch.randn(4, 3).double()
    p = logits.softmax(-1)
    factors = output_factors(pt.Categorical(), logits, torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(factors @ factors.mT, torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1))
    p = logits[:, :1].sigmoid()
    factors = output_factors(pt.Bernoulli(), logits[:, :1], torch.tensor([0.0, 1.0, 1.0, 0.0]))
    torch.testing.assert_close(factors @ factors.mT, (p * (1 - p)).unsqueeze(2))
    factors = output_factors(pt.GaussianNoise(0.5), logits, torch.randn(4, 3))
    torch.testing.assert_close(factors @ factors.mT, 4 * torch.eye(3).double().expand(4, 3, 3))


def test_certain_outputs_have_no_curvature_and_are_not_refused():
    factors = output_factors(
        pt.Categorical(), torch.tensor([[30.0, 0.0, 0.0], [800.0, 0.0, -5.0]]), torch.tensor([0, 0])
    )
    assert factors.isfinite().all()
    assert float(factors.abs().max()) < 1e-6


def test_refusals():
    with pytest.raises(UsageError, match="not convex in the outputs"):
        output_factors(pt.GaussianNoise("input"), torch.randn(20, 2), 3 * torch.randn(20, 1))
    with pytest.raises(UsageError, match="NaN or infinite"):
        output_factors(pt.Categorical(), torch.full((1, 2), torch.nan), torch.tensor([0]))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(-1)), "does not give the network's outputs"),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), "does not give the network's outputs"),
        (nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Conv1d(3, 2, 1), nn.Flatten()), "no nn.Linear"),
        (nn.Sequential(*[nn.Linear(3, 3)] * 2), "used elsewhere"),
        (nn.Linear(3, 4000), "full covariance of 16000 weights"),
    ],
)
def test_networks_without_a_last_layer_are_refused(model, message):
    net = pt.bayesian(model, posterior="point")
    x = torch.randn(5, 3)
    with pytest.raises(UsageError, match=message):
        Curvature(net, pt.Categorical(), batch_size=5).last_layer(x, torch.zeros(5, dtype=torch.long))
