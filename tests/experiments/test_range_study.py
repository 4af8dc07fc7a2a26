"""The range test of a run, and what it says in words."""

from dataclasses import replace

import pytest

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Run
from posterity.experiments.build import build_data, build_network
from posterity.experiments.range_study import range_verdict, study_range
from posterity.training import RangeTest

RUN = Run(dataset="digits", model="mlp", hidden=(8,), temperature=0.01, optimizer="sgd", penalty="l2")
LIMITS = {"group": "mean", "low": 1e-4, "high": 1.0, "steps": 20}
FOUND = RangeTest("all", "nll", [], [], [], 0.0123, None)


def test_it_is_the_range_test_of_the_runs_network_and_settings():
    found = study_range(RUN, **LIMITS)
    train = build_data(RUN).train
    assert found == pt.range_test(build_network(RUN, train), train, **LIMITS, **RUN.training_values())
    assert found.group == "mean"
    assert found.rates[0] == pytest.approx(1e-4)


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="sds"):
        study_range(RUN, **{**LIMITS, "group": "sds"})
    with pytest.raises(UsageError, match="at least 10 steps"):
        study_range(RUN, **{**LIMITS, "steps": 9})


def test_the_verdict():
    limits = {"low": 1e-6, "high": 1.0}
    assert range_verdict(FOUND, **limits) == "suggested learning rate: 0.012"
    assert range_verdict(replace(FOUND, diverged=0.5), **limits).endswith("0.012; it diverged at 0.5")
    nothing = replace(FOUND, suggestion=None)
    assert "try a higher --high, a lower --temperature" in range_verdict(nothing, **limits)
    early = range_verdict(replace(nothing, diverged=1e-5), **limits)
    assert "no clear fall of the nll between 1e-06 and 1; it diverged at 1e-05: try a lower --low" in early
    late = range_verdict(replace(nothing, diverged=0.5), **limits)
    assert "--low" not in late
    assert "--high" not in late
