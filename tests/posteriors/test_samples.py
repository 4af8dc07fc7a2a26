import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.posteriors import Samples


def test_moments_by_hand():
    q = Samples(torch.tensor([[1.0, 2.0], [3.0, 2.0]]))
    assert q.mean.tolist() == [2.0, 2.0]
    assert q.sd.tolist() == [1.0, 0.0]


def test_a_draw_takes_the_vector_of_its_quantile():
    q = Samples(torch.arange(4.0).unsqueeze(1))
    noise = torch.tensor([[-9.0], [-0.7], [-0.6], [-0.1], [0.1], [0.7], [40.0]])  # quartiles at -0.674, 0, 0.674
    assert q.sample(noise).squeeze(-1).tolist() == [0, 0, 1, 1, 2, 3, 3]


@pytest.fixture
def sampled(network):
    """A linear map with that many weight vectors, and these."""

    def build(count):
        net = network(width=None, likelihood=pt.Categorical(), posterior="point")
        weights = torch.randn(count, net.num_weights)
        net.posterior = Samples(weights)
        return net, weights

    return build


@pytest.mark.parametrize("samples", [5, 50])
def test_a_prediction_takes_each_vector_once(sampled, samples):
    net, weights = sampled(5)
    x = torch.randn(4, 3)
    expected = torch.stack([net.call(w, x).softmax(-1) for w in weights])
    prediction = net.predict(x, samples)
    torch.testing.assert_close(prediction.samples, expected)
    torch.testing.assert_close(prediction.mean, expected.mean(0))
    assert len(net.predict(x, 3).samples) == 3


def test_saved_and_loaded(sampled, tmp_path):
    net, weights = sampled(3)
    pt.save(net, tmp_path / "net.safetensors")
    again = pt.load(tmp_path / "net.safetensors", nn.Linear(3, 2))
    assert torch.equal(again.posterior.weights, weights)
    x = torch.randn(4, 3)
    assert torch.equal(again.predict(x, 2, seed=1).mean, net.predict(x, 2, seed=1).mean)


def test_refusals(sampled):
    with pytest.raises(UsageError, match="at least one weight vector"):
        Samples(torch.zeros(3))
    net, _ = sampled(2)
    with pytest.raises(UsageError, match="nothing to train"):
        pt.fit(net, (torch.randn(8, 3), torch.randint(2, (8,))), epochs=1)
