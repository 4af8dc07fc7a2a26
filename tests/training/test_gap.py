"""Where there are no data a network must know that it does not know: docs/networks.md, "Where there are no data"."""

import pytest
import torch

import posterity as pt
from posterity.data.synthetic import GAP, GAP_NOISE, gap
from posterity.models import mlp


@pytest.mark.parametrize("seed", [0, 1])
def test_laplace_is_uncertain_in_the_middle_of_the_gap(seed):
    """By evidence's prior the last layer's epistemic sd is at least twice that at the data, there and outside."""
    splits = gap(0)
    torch.manual_seed(seed)
    net = pt.bayesian(mlp((1,), 1, hidden=(50,), activation="tanh"), posterior="point", seed=seed)
    pt.fit(net, splits.train, optimizer="adam", lr=0.03, epochs=1000, seed=seed)
    found = pt.laplace(net, splits.train, fit_prior=True, seed=seed)
    clusters = found.predict(splits.test.x, 200, seed=0)
    middle = found.predict(torch.full((1, 1), sum(GAP) / 2), 200, seed=0).epistemic_sd
    outside = found.predict(torch.tensor([[-2.6], [2.6]]), 200, seed=0).epistemic_sd
    assert middle.item() > 2 * clusters.epistemic_sd.mean()
    assert outside.min() > 2 * clusters.epistemic_sd.mean()
    assert clusters.aleatoric_sd.mean().item() == pytest.approx(GAP_NOISE, rel=0.3)  # and it has not given up the fit
