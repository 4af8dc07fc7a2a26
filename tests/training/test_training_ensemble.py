"""An ensemble is trained member by member, each exactly as it would be alone; it resumes within a member."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.ensemble import member_seed
from posterity.training import ProlongedWarning

SETTINGS = {"epochs": 3, "batch_size": 20, "lr": 0.02, "seed": 4}


class Steps(pt.Callback):
    """Counts the steps, over all members, and breaks off before step `at`."""

    kept = False

    def __init__(self, at=None):
        self.at, self.count = at, 0

    def on_step(self, training, loss):
        if self.count == self.at:
            raise KeyboardInterrupt
        self.count += 1


@pytest.fixture
def nets(curve_net):
    def make(**options):
        drawn = pt.ensemble(curve_net(), 3, seed=9).posterior.parts
        init = [curve_net().layout.views(q.mean.detach()) for q in drawn]
        return [curve_net(init=weights, **options) for weights in init]

    return make


@pytest.fixture
def make(nets):
    """An ensemble of three."""
    return lambda **options: pt.ensemble(nets(**options), seed=0)


@pytest.mark.parametrize("posterior", ["mean_field", "tied", "low_rank", "point"])
@pytest.mark.parametrize("settings", [{}, {"patience": 1, "average": "swa"}])
def test_it_equals_its_members_trained_by_hand(nets, curve, records, same, posterior, settings):
    settings = {**SETTINGS, **settings}
    result = pt.fit(pt.ensemble(nets(posterior=posterior), seed=0), curve, curve, **settings)
    alone = nets(posterior=posterior)
    expected = []
    for number, net in enumerate(alone, 1):
        found = pt.fit(net, curve, curve, **{**settings, "seed": member_seed(4, number)})
        expected += [{"member": number, **record} for record in records(found.history)]
        q = result.net.posterior.parts[number - 1]
        assert same(dict(q.state_dict()), dict(net.posterior.state_dict()))
        if found.averaged is not None:
            average = result.averaged.posterior.parts[number - 1]
            assert same(dict(average.state_dict()), dict(found.averaged.posterior.state_dict()))
        assert result.members[number - 1].best_epoch == found.best_epoch
    assert records(result.history) == expected
    variances = [net.likelihood.learnt()["noise"] ** 2 for net in alone]
    assert result.net.likelihood.learnt()["noise"] ** 2 == pytest.approx(sum(variances) / 3, rel=1e-5)


def test_the_first_member_is_the_network_trained_alone(curve_net, curve, same):
    whole = pt.fit(pt.ensemble(curve_net(), 2, seed=0), curve, **SETTINGS)
    alone = pt.fit(curve_net(), curve, **SETTINGS)
    assert same(dict(whole.net.posterior.parts[0].state_dict()), dict(alone.net.posterior.state_dict()))


def test_the_result_is_saved_loaded_and_predicts(make, curve, tmp_path):
    net = pt.fit(make(), curve, **SETTINGS).net
    pt.save(net, tmp_path / "net.safetensors")
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    loaded = pt.load(tmp_path / "net.safetensors", model)
    assert loaded.posterior.kind == "mixture"
    for samples in (2, 5):
        assert torch.equal(
            loaded.predict(curve.x, samples, seed=1).samples, net.predict(curve.x, samples, seed=1).samples
        )


def test_trained_networks_are_mixed_and_trained_on(nets, curve):
    trained = nets()
    for net in trained:
        pt.fit(net, curve, **SETTINGS)
    mixed = pt.ensemble(trained, seed=0)
    before = mixed.posterior.mean.clone()
    pt.fit(mixed, curve, **SETTINGS)
    assert (mixed.posterior.mean != before).all()


@pytest.mark.parametrize("at", [0, 5, 6, 8, 17])  # 6 steps a member
@pytest.mark.parametrize("settings", [{}, {"average": "samples", "average_start": 0.0}])
def test_it_resumes_in_whatever_member(make, curve, records, same, tmp_path, at, settings):
    settings = {**SETTINGS, "checkpoint_seconds": 0, **settings}
    whole = pt.fit(make(), curve, **settings)
    with pytest.raises(KeyboardInterrupt):
        pt.fit(make(), curve, out=tmp_path, callbacks=[Steps(at)], **settings)
    assert not (tmp_path / "checkpoint").exists()  # it is whole, or not there
    steps = Steps()
    resumed = pt.fit(make(), curve, out=tmp_path, resume=True, callbacks=[steps], **settings)
    assert steps.count == 18 - at  # what was done is not done again
    assert same(dict(resumed.net.state_dict()), dict(whole.net.state_dict()))
    assert records(resumed.history) == records(whole.history) == records(tmp_path / "history.jsonl")
    if whole.averaged is not None:
        assert same(dict(resumed.averaged.state_dict()), dict(whole.averaged.state_dict()))


def test_a_finished_one_is_only_read(make, curve, same, tmp_path):
    whole = pt.fit(make(), curve, out=tmp_path, **SETTINGS)
    steps = Steps()
    again = pt.fit(make(), curve, out=tmp_path, resume=True, callbacks=[steps], **SETTINGS)
    assert steps.count == 0
    assert same(dict(again.net.state_dict()), dict(whole.net.state_dict()))
    assert again.stopped == "epochs"


def test_it_is_prolonged(make, curve, tmp_path):
    pt.fit(make(), curve, out=tmp_path, **SETTINGS)
    with pytest.warns(ProlongedWarning, match="from 3 to 5") as said:
        result = pt.fit(make(), curve, out=tmp_path, resume=True, **{**SETTINGS, "epochs": 5})
    assert sum(each.category is ProlongedWarning for each in said) == 3
    assert [(r["member"], r["epoch"]) for r in result.history] == [(m, e) for m in (1, 2, 3) for e in (1, 2, 3, 4, 5)]


def test_a_prolongation_that_one_member_refuses_begins_with_none(make, curve, newest, tmp_path):
    class StopThird(pt.Callback):
        kept = False

        def on_epoch(self, training, record):
            if training.settings.seed == member_seed(4, 3):
                training.stop("enough")

    result = pt.fit(make(), curve, out=tmp_path, callbacks=[StopThird()], **SETTINGS)
    assert result.stopped == "epochs; enough"
    with pytest.raises(UsageError, match=r"has stopped \(enough\)"):
        pt.fit(make(), curve, out=tmp_path, resume=True, **{**SETTINGS, "epochs": 5})
    assert newest(tmp_path / "member-1")["settings"]["epochs"] == 3


def test_overwriting_leaves_no_member(make, curve_net, curve, tmp_path):
    pt.fit(make(), curve, out=tmp_path, **SETTINGS)
    pt.fit(curve_net(), curve, out=tmp_path, overwrite=True, **SETTINGS)
    assert not list(tmp_path.glob("member-*"))


def test_a_run_resumes_with_its_own_network(make, nets, curve_net, curve, tmp_path):
    def refused(net, out, message):
        with pytest.raises(UsageError, match=message):
            pt.fit(net, curve, out=tmp_path / out, resume=True, **SETTINGS)

    pt.fit(curve_net(), curve, out=tmp_path / "plain", **SETTINGS)
    refused(make(), "plain", "its posterior was {'kind': 'mean_field'.* is now {'kind': 'mixture'")
    with pytest.raises(KeyboardInterrupt):
        pt.fit(make(), curve, out=tmp_path / "begun", callbacks=[Steps(8)], **SETTINGS)
    refused(curve_net(), "begun", "holds an ensemble that was begun")
    pt.fit(make(), curve, out=tmp_path / "ended", **SETTINGS)
    refused(curve_net(), "ended", "its posterior was {'kind': 'mixture'.* is now {'kind': 'mean_field'")
    refused(pt.ensemble(nets()[:2]), "ended", "its posterior was {'components'")


class Trained(pt.GaussianNoise):
    """Whose noise is left to an optimiser."""

    def trained(self):
        return list(self.parameters())


def test_refusals(make, curve):
    for given, message in (
        ({"learn_prior": True}, "own prior; they have one"),
        ({"likelihood": Trained()}, "an ensemble has one likelihood"),
        ({"average": "swa", "average_every": 50}, "averaging takes at least"),
    ):
        with pytest.raises(UsageError, match=message):
            pt.fit(make(), curve, **SETTINGS, **given)


def test_a_given_likelihood_is_not_shared_by_the_members(make, curve):
    noise = pt.GaussianNoise()
    result = pt.fit(make(), curve, likelihood=noise, **SETTINGS)
    assert noise.learnt() == pt.GaussianNoise().learnt()
    assert len({each.history[-1]["noise"] for each in result.members}) == 3


def test_a_penalty_is_the_prior_of_all(make, curve):
    assert pt.fit(make(), curve, penalty="l1", **SETTINGS).net.prior.kind == "penalty"


def test_rates_are_tried_on_the_first_member(make, nets, curve):
    found = pt.range_test(make(), curve, steps=30, batch_size=20)
    assert found == pt.range_test(nets()[0], curve, steps=30, batch_size=20)


def test_it_says_which_member_is_trained(make, curve, capsys):
    pt.fit(make(), curve, progress=True, **SETTINGS)
    printed = capsys.readouterr().err
    assert [line for line in printed.splitlines() if "member" in line] == [f"member {k} of 3" for k in (1, 2, 3)]


def test_members_and_averages_have_the_units_of_the_ensemble():
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    y = 700 + 20 * x.sum(1)
    net = pt.ensemble(pt.bayesian(nn.Linear(2, 1), seed=0), 2, seed=0)
    result = pt.fit(net, (x, y), epochs=20, batch_size=20, standardise=True, average="swa")
    for each in (net, result.averaged, *(member.net for member in result.members)):
        assert each.predict(x, seed=0).mean.mean().item() == pytest.approx(700, abs=20)
