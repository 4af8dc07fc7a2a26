"""Several weight samples: evaluated together where that can be done, with the same result."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.prediction.together import FEW_ROWS


class Branching(nn.Module):
    """Looks at its values, which vmap cannot."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        out = self.linear(x)
        return out if out.sum() > 0 else 10 * out


class Noted(nn.Module):
    """Attention written by hand, in the user's own code."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x):
        return (self.query(x) @ self.key(x).T).softmax(-1) @ x


def conv():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2))


def mlp():
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))


NETS = {
    "mlp": (mlp, (5, 3), 1),
    "mlp, many rows": (mlp, (100, 3), 1),
    "own code": (Noted, (5, 3), 1),
    "few images": (conv, (FEW_ROWS - 1, 2, 6, 6), 1),
    "many images": (conv, (FEW_ROWS, 2, 6, 6), 0),
    "batch norm": (lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), (5, 3), 0),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), (2, 3, 4), 0),
    "branching": (Branching, (5, 3), 1),  # tried once, then never again
}


@pytest.fixture
def folded(monkeypatch):
    """Counts the uses of vmap."""
    calls, original = [], torch.vmap

    def counting(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(torch, "vmap", counting)
    return calls


@pytest.mark.parametrize("name", NETS)
def test_together_equals_one_by_one(name, folded):
    make, shape, expected = NETS[name]
    torch.manual_seed(0)
    net, x = pt.bayesian(make(), rho=-1.0, seed=1), torch.randn(shape)
    weights = net.draw(4).detach().requires_grad_()
    together = net.outputs(x, weights=weights)
    assert len(folded) == expected
    apart = torch.stack([net.call(w, x) for w in weights])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)
    mix = torch.randn_like(apart)
    gradients = [torch.autograd.grad((out * mix).sum(), weights)[0] for out in (together, apart)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def test_a_network_that_cannot_is_tried_once(folded):
    net = pt.bayesian(Branching(), rho=-1.0)
    for _ in range(3):
        net.outputs(torch.ones(2, 3), samples=2)
    assert len(folded) == 1


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_samples_follow_the_noise(samples):
    nets = [pt.bayesian(nn.Linear(3, 2).requires_grad_(), rho=-1.0, seed=1) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(4, 3)
    out = nets[0].outputs(x, samples=samples)
    assert out.shape == (samples, 4, 2)
    torch.testing.assert_close(out, torch.stack([nets[1](x) for _ in range(samples)]))


def test_given_weights_are_used():
    net = pt.bayesian(nn.Linear(1, 1), seed=1)
    weights = torch.tensor([[2.0, 1.0], [3.0, -1.0]])
    out = net.outputs(torch.tensor([[1.0], [2.0]]), weights=weights)
    assert out.squeeze(-1).tolist() == [[3, 5], [2, 5]]
    assert net.outputs(torch.tensor([[1.0]]), weights=weights[0]).tolist() == [[[3.0]]]


def test_errors():
    net = pt.bayesian(nn.Linear(3, 2))
    with pytest.raises(UsageError, match="at least 1, not 0"):
        net.outputs(torch.zeros(1, 3), samples=0)
    with pytest.raises(UsageError, match="one tensor, not tuple"):
        pt.bayesian(nn.LSTM(3, 2)).outputs(torch.zeros(1, 3))


class Counting(nn.Module):
    """Its own code reads a number, which vmap cannot; and it drops out."""

    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x):
        y = self.drop(self.linear(x))
        return y + 0 * y.sum().item()


def test_a_failed_attempt_leaves_the_global_generator_as_it_was():
    net, x = pt.bayesian(Counting(), seed=0), torch.ones(5, 4)
    weights = net.draw(3).detach()
    torch.manual_seed(1)
    tried = net.outputs(x, weights=weights)
    torch.manual_seed(1)
    assert torch.equal(net.outputs(x, weights=weights), tried)
