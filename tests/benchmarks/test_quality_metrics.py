import math

import pytest
import torch

from quality_metrics import compare_classes, compare_regression, mixture_coverage, mixture_tv, score_regression

NOISE = 0.1


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2, 3.0])
def test_tv_of_two_gaussians_is_an_error_function(shift):
    a = torch.zeros(1, 11)
    expected = math.erf(shift / (NOISE * math.sqrt(8)))
    assert mixture_tv(a, a + shift, NOISE) == pytest.approx(expected, abs=1e-3)


def test_tv_of_mixtures_agrees_with_a_fine_grid():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(300, 4, generator=generator), 0.5 * torch.randn(200, 4, generator=generator) + 0.3
    grid = torch.linspace(-8, 8, 3201, dtype=torch.float64)

    def density(means):
        mixture = torch.distributions.Normal(means.double(), NOISE)
        return mixture.log_prob(grid[:, None]).exp().mean(1)

    by_input = [
        0.5 * torch.trapezoid((density(a[:, i]) - density(b[:, i])).abs(), grid).item() for i in range(a.shape[1])
    ]
    assert mixture_tv(a, b, NOISE) == pytest.approx(sum(by_input) / len(by_input), abs=1e-3)


def test_regression_distances_by_hand():
    truth = torch.tensor([[0.0], [0.2]]).unsqueeze(-1)  # mean 0.1, variance 0.01 + noise^2
    ours = torch.full((1, 1, 1), 0.4)
    found = compare_regression(ours, truth, NOISE)
    assert found["mean rmse"] == pytest.approx(0.3)
    assert found["sd ratio"] == pytest.approx(math.sqrt(0.5))
    assert compare_regression(truth, truth, NOISE)["tv"] == 0


def test_class_distances_by_hand():
    truth = torch.tensor([[[0.6, 0.4], [0.9, 0.1]], [[0.8, 0.2], [0.3, 0.7]]])  # means 0.7, 0.6
    ours = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]])
    assert compare_classes(ours, truth) == pytest.approx({"tv": 0.2, "agreement": 0.5})


def test_coverage_of_the_true_mixture_is_its_level():
    generator = torch.Generator().manual_seed(0)
    means = torch.tensor([-1.0, 1.0]).repeat(5000)
    y = means[torch.randperm(10000, generator=generator)] + NOISE * torch.randn(10000, generator=generator)
    two = torch.tensor([[-1.0], [1.0]]).expand(2, 10000)
    assert mixture_coverage(two, y, NOISE) == pytest.approx(0.9, abs=0.01)
    assert mixture_coverage(two + 9, y, NOISE) == 0


def test_regression_score_of_one_network_is_its_gaussian_nll():
    ours, y = torch.zeros(1, 3, 1), torch.tensor([[0.0], [0.1], [0.3]])
    expected = -torch.distributions.Normal(0.0, NOISE).log_prob(y).mean().item()
    assert score_regression(ours, y, NOISE) == pytest.approx({"nll": expected, "coverage": 2 / 3}, abs=1e-5)
