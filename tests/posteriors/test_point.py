import torch

from posterity.posteriors import Point


def test_all_mass_on_the_mean():
    mean = torch.tensor([1.0, -2.0, 3.0])
    q = Point(mean)
    assert torch.equal(q.sample(torch.randn(4, 3)), mean.expand(4, 3))
    assert torch.equal(q.sample(torch.randn(3)), mean)
    assert torch.equal(q.sd, torch.zeros(3))
    assert torch.equal(q.variance(), torch.zeros(3))


def test_density_and_entropy_are_those_of_a_delta():
    q = Point(torch.tensor([1.0, -2.0]))
    weights = torch.tensor([[1.0, -2.0], [1.0, -2.1]])
    assert q.log_density(weights).tolist() == [torch.inf, -torch.inf]
    assert q.entropy() == -torch.inf


def test_gradient_adds_over_samples():
    q = Point(torch.zeros(3))
    (q.sample(torch.zeros(2, 3)) * torch.tensor([[1.0, 2, 3], [10, 20, 30]])).sum().backward()
    assert q.mean.grad.tolist() == [11, 22, 33]


def test_only_means_are_trained():
    q = Point(torch.zeros(3))
    assert list(q.groups()) == ["mean"]
    assert [n for n, _ in q.named_parameters()] == ["mean"]
