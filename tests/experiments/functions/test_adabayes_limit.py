"""The paths of AdaBayes-FP and its limits, against one step by hand and the orders that theory gives."""

from __future__ import annotations

import math

import pytest
import torch

from posterity.core.errors import UsageError
from posterity.core.randomness import generator
from posterity.experiments.functions.adabayes_limit import adabayes_limit


def test_one_step_by_hand():
    """At step 1 <g^2> = g^2: SGD's step is lr_sgd g, that of AdaBayes-FP g / (h + sqrt(h^2 + g^2/eta^2)), h = 1/2."""
    random = generator(3, "gradients")
    g = (0.01 * 0.1 * torch.randn(1, 1, generator=random, dtype=torch.float64)).item()  # distance lr / lr_sgd
    ours = g / (0.5 + math.sqrt(0.25 + (g / 0.01) ** 2))
    found = adabayes_limit(limit="sgd", distance=0.1, weights=1, steps=1, lr=0.01, lr_sgd=1.0, seed=3)
    assert found["deviation"] == pytest.approx(abs(ours - g) / abs(g))


@pytest.mark.parametrize(("limit", "order"), [("sgd", 2), ("adamw", 1)])
def test_the_deviation_falls_by_theorys_order(limit, order):
    far, near = (adabayes_limit(limit=limit, distance=d, steps=50)["deviation"] for d in (1e-3, 1e-5))
    assert math.log10(far / near) / 2 == pytest.approx(order, abs=0.1)


def test_seeds_differ_and_repeat():
    once, again, other = (adabayes_limit(limit="sgd", distance=0.1, steps=5, seed=s) for s in (1, 1, 2))
    assert once == again != other


def test_refuses_what_is_no_limit():
    with pytest.raises(UsageError, match="limit"):
        adabayes_limit(limit="adam", distance=0.1)
    with pytest.raises(UsageError, match="above 0"):
        adabayes_limit(limit="sgd", distance=0.0)
