"""What a newcomer does first."""

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError

X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2


def test_arrays_in_and_out():
    net = pt.bayesian(nn.Linear(3, 2), rho=-5.0)
    pt.fit(net, (X, Y), epochs=1)
    assert torch.equal(net.predict(X, seed=0).mean, net.predict(torch.from_numpy(X).float(), seed=0).mean)


def test_a_prior_may_be_just_its_scale():
    assert pt.bayesian(nn.Linear(3, 2), prior=0.5).prior.sd.tolist() == pytest.approx([0.5] * 8)
    assert pt.bayesian(nn.Linear(4, 2), prior="glorot").prior.sd[0].item() == pytest.approx(0.5)


def test_tokens_reach_an_embedding():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2))
    tokens, labels = torch.arange(20).view(10, 2) % 5, torch.arange(10) % 2
    net = pt.bayesian(model, rho=-5.0)
    pt.fit(net, pt.Dataset(tokens, labels, "classification", 2), epochs=1)
    assert net.predict(tokens).mean.shape == (10, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pt.fit(nn.Linear(3, 2), (X, Y)), r"make one with bayesian\(Linear"),
        (lambda: pt.bayesian(pt.bayesian(nn.Linear(3, 2))), "Bayesian already"),
        (lambda: pt.bayesian(nn.Linear(3, 2), rho=-5.0, relative_sd=0.1), "not both"),
        (lambda: pt.fit(pt.bayesian(nn.Linear(3, 1)), (X, Y)), "task='binary'"),
    ],
)
def test_mistakes_are_told(call, message):
    with pytest.raises(UsageError, match=message):
        call()
