"""AdaBayes-FP as a fused step of Adam, beside the algorithm as it is written."""

import pytest
import torch
from test_adabayes import feed, noise, vector
from torch import nn

from posterity.optim import AdaBayesFP
from posterity.optim.adabayes import steady_precision


class FixedPointByHand:
    """Algorithm 2 as it is written, in double precision, with a v of its own that averages g^2 alone."""

    def __init__(self, w, beta1=0.9, beta2=0.999):
        self.w, self.beta1, self.beta2, self.t = w.detach().double().clone(), beta1, beta2, 0
        self.m, self.v = torch.zeros_like(self.w), torch.zeros_like(self.w)

    def step(self, g, *, eta, lr_sgd, ratio=1.0):
        self.t += 1
        g = torch.as_tensor(g, dtype=torch.float64)
        self.m = self.beta1 * self.m + (1 - self.beta1) * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * g**2
        mean, square = self.m / (1 - self.beta1**self.t), self.v / (1 - self.beta2**self.t)
        self.w = self.w - ratio * mean / steady_precision(square, eta, lr_sgd)


@pytest.mark.parametrize("beta2", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_the_fused_step_is_the_algorithm(beta2, scale):
    w = nn.Parameter(torch.zeros(6))
    reference = FixedPointByHand(w, beta2=beta2)
    optimizer = AdaBayesFP([w], lr=0.01, lr_sgd=0.1, betas=(0.9, beta2))
    for gradient in noise(400, scale=scale):
        feed(optimizer, w, [gradient])
        reference.step(gradient.float(), eta=0.01, lr_sgd=0.1)
    torch.testing.assert_close(w.detach().double(), reference.w, rtol=1e-4, atol=1e-5 * reference.w.abs().max().item())


def test_another_sgd_rate_counts_from_the_next_step_on():
    w = vector(*[1.0] * 6)
    reference, optimizer = FixedPointByHand(w), AdaBayesFP([w], lr=0.01, lr_sgd=0.1)
    for number, gradient in enumerate(noise(40, scale=0.1)):
        lr_sgd = 0.1 if number < 20 else 0.7
        optimizer.param_groups[0]["lr_sgd"] = lr_sgd
        feed(optimizer, w, [gradient])
        reference.step(gradient, eta=0.01, lr_sgd=lr_sgd)
    torch.testing.assert_close(w.detach(), reference.w)


def test_a_group_that_is_built_without_a_rate_has_its_first_one():
    w = vector(*[1.0] * 6)
    reference, optimizer = FixedPointByHand(w), AdaBayesFP([w], lr=0.0, lr_sgd=0.1)
    for number, gradient in enumerate(noise(30, scale=0.1)):
        if number == 10:
            assert torch.equal(w.detach(), torch.ones_like(w))
        optimizer.param_groups[0]["lr"] = 0.0 if number < 10 else 0.01
        feed(optimizer, w, [0 * gradient if number < 5 else gradient])
        reference.step(0 * gradient if number < 5 else gradient, eta=0.01, lr_sgd=0.1, ratio=float(number >= 10))
    torch.testing.assert_close(w.detach(), reference.w)


def test_a_state_from_before_v_was_lifted_goes_on():
    w = vector(*[1.0] * 6)
    reference, optimizer = FixedPointByHand(w), AdaBayesFP([w], lr=0.01, lr_sgd=0.1)
    for gradient in noise(20, scale=0.1):
        feed(optimizer, w, [gradient])
        reference.step(gradient, eta=0.01, lr_sgd=0.1)
    old = optimizer.state_dict()
    del old["param_groups"][0]["lift"]
    old["state"][0]["v"] = reference.v.clone()
    optimizer.load_state_dict(old)
    for gradient in noise(20, scale=0.1):
        feed(optimizer, w, [gradient])
        reference.step(gradient, eta=0.01, lr_sgd=0.1)
    torch.testing.assert_close(w.detach(), reference.w)
