import argparse
import dataclasses
import math

import pytest
import torch

import posterity as pt
import quality_candidates
from posterior_quality import candidate_row, reference_rows
from posterity.objectives import kl_divergence
from quality_candidates import CANDIDATES, MAP, Candidate, bag, loss, outputs, predictive, train
from quality_problems import PROBLEMS
from quality_report import Row, draw_bands, write

CHAIN = next(c for c in CANDIDATES if c.kind == "chain")
MEAN_FIELD = next(c for c in CANDIDATES if c.label == "mean-field")
ENSEMBLE = next(c for c in CANDIDATES if c.kind == "ensemble")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(quality_candidates, "MAP", dataclasses.replace(MAP, steps=2))
    return lambda candidate: dataclasses.replace(candidate, steps=6)


def truth(problem, count=8):
    prior = problem.network(0)
    return outputs(bag(prior, prior.prior.sample(torch.randn(count, prior.num_weights))), problem, count)


def test_every_candidate_has_its_own_name_and_key():
    problem = PROBLEMS["gap"]()
    assert len({c.label for c in CANDIDATES}) == len(CANDIDATES)
    assert len({c.key(problem, seed) for c in CANDIDATES for seed in range(3)}) == 3 * len(CANDIDATES)


def test_away_is_away():
    gap, moons = PROBLEMS["gap"](), PROBLEMS["two-moons"]()
    assert torch.cdist(gap.away, gap.train.x).amin() > 0
    assert gap.train.x[gap.train.x > gap.away.min()].min() > gap.away.max()
    assert torch.cdist(moons.away, moons.train.x).amin() > 0.5


def test_a_chain_begins_at_the_map_and_keeps_its_second_half(short):
    chain = short(CHAIN)
    chain = dataclasses.replace(chain, fit={**chain.fit, "average_every": 1})
    net = train(chain, PROBLEMS["gap"](), 0)
    assert net.posterior.support.shape == (3, net.num_weights)  # after steps 4, 5 and 6
    assert net.posterior.support[0].ne(net.posterior.support[1]).any()
    begin = train(dataclasses.replace(MAP, steps=2), PROBLEMS["gap"](), 0)
    assert (net.posterior.support[0] - begin.posterior.mean).abs().max() < 0.1


def test_the_loss_is_the_negative_elbo_of_all_data():
    problem = PROBLEMS["two-moons"]()
    net = problem.network(0, relative_sd=1e-4)  # as good as a point: the likelihood is that of the mean
    mean = net.posterior.mean.detach()
    log_prob = net.likelihood.log_prob(net.outputs(problem.train.x, weights=mean[None]), problem.train.y).sum()
    expected = kl_divergence(net.posterior, net.prior) - log_prob / 0.3
    assert loss(net, problem, 0.3) == pytest.approx(expected.item(), rel=1e-3)
    assert math.isnan(loss(problem.network(0, posterior="point"), problem, 1.0))


def test_an_ensemble_has_different_members(short):
    net = train(short(ENSEMBLE), PROBLEMS["two-moons"](), 0)
    assert len(net.posterior.support.unique(dim=0)) == quality_candidates.MEMBERS


@pytest.mark.parametrize("candidate", [MAP, MEAN_FIELD])
def test_a_result_is_kept(candidate, short, tmp_path):
    problem = PROBLEMS["two-moons"]()
    first, facts = predictive(short(candidate), problem, 0, tmp_path)
    again, same = predictive(short(candidate), problem, 0, tmp_path)
    assert facts["seconds"] == same["seconds"]
    assert facts["loss"] == same["loss"] or candidate is MAP
    assert all(torch.equal(first[name], again[name]) for name in problem.inputs)


@pytest.mark.parametrize(("build", "fit"), [({"no_such": 1}, {}), ({}, {"no_such": 1}), ({"posterior": "no_such"}, {})])
def test_what_this_version_lacks_is_left_out_with_the_reason(build, fit):
    problem = PROBLEMS["gap"]()
    args = argparse.Namespace(seeds=1, cache=None)
    row = candidate_row(Candidate("new", build=build, fit=fit, steps=2), problem, {1.0: truth(problem)}, args)
    assert not row.seeds
    assert "no_such" in row.reason


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_page_has_a_row_for_each_candidate_and_says_what_did_not_converge(short, name, tmp_path):
    problem = PROBLEMS[name]()
    true = truth(problem)
    rows = [*reference_rows(problem, true, 1.0), Row("gone", 1.0, [], "not in this version")]
    rows.append(candidate_row(short(MAP), problem, {1.0: true}, argparse.Namespace(seeds=2, cache=None)))
    rows[0].outputs = true
    facts = {"temperature": 1.0, "draws": 8, "steps": 1.0, "divergences": 0, "seconds": 1.0, "converged": False}
    facts |= {"r_hat": {"max": 2.0, "median": 1.5}, "effective": {"min": 2.0, "median": 3.0}}
    page = write([{"problem": problem, "nuts": [facts], "rows": rows}], 2, tmp_path)
    assert "NOT converged" in page
    assert "| point (MAP) | " in page
    assert "±" in page
    assert "Left out: gone (not in this version)." in page
    assert rows[0].seeds[0]["tv, data"] == pytest.approx(0, abs=1e-9)
    assert {p.name for p in tmp_path.iterdir()} == {"posterior_quality.md", "posterior_quality.json"}
    if problem.noise is not None:
        draw_bands({"problem": problem, "rows": rows}, tmp_path / "figures" / "bands.png")
        assert (tmp_path / "figures" / "bands.png").stat().st_size > 10_000


def test_the_librarys_networks_are_those_of_the_problem():
    net = PROBLEMS["gap"]().network(3)
    assert isinstance(net, pt.BayesianModule)
    assert [entry.shape for entry in net.layout.entries] == [(50, 1), (50,), (1, 50), (1,)]
