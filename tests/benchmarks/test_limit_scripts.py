"""The scripts on wide networks: results are kept and resumed, and the claims show at a small scale."""

import argparse
import json

import pytest

import mean_field_limit
import wide_networks
from cached import Cached


def test_results_are_computed_once_and_only_for_the_same_settings(tmp_path):
    calls = []

    def compute(value):
        calls.append(value)
        return {"value": value}

    path = tmp_path / "deep" / "results.json"
    Cached(path, {"lr": 1}).get("a", lambda: compute(1))
    again = Cached(path, {"lr": 1})
    assert again.get("a", lambda: compute(2)) == {"value": 1}
    assert again.get("b", lambda: compute(3)) == {"value": 3}
    assert json.loads(path.read_text())["results"] == {"a": {"value": 1}, "b": {"value": 3}}
    assert Cached(path, {"lr": 2}).get("a", lambda: compute(4)) == {"value": 4}
    assert calls == [1, 3, 4]
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


def test_an_interrupted_comparison_keeps_what_it_has(tmp_path):
    path = tmp_path / "results.json"
    kept = Cached(path, {})
    kept.get("a", lambda: {"value": 1})
    with pytest.raises(ZeroDivisionError):
        kept.get("b", lambda: {"value": 1 / 0})
    assert Cached(path, {}).results == {"a": {"value": 1}}


@pytest.fixture(scope="module")
def rows():
    args = argparse.Namespace(num_data=20, iterations=60, seed=0)
    tempered = {width: mean_field_limit.measure(width, 0.05 * 20 / width, args) for width in (16, 64)}
    return {
        "untempered": {width: mean_field_limit.measure(width, 1.0, args) for width in (16, 64)},
        "tempered": tempered,
    }


def test_k1_untempered_the_optimum_tends_to_the_prior(rows):
    small, large = (rows["untempered"][width]["optimum"] for width in (16, 64))
    assert large["kl"] < 0.4 * small["kl"]  # the sum falls like 1/N
    assert large["kl_per_weight"] < 1e-3


def test_k2_the_gap_is_bounded_by_p_over_n(rows):
    for by_width in rows.values():
        for row in by_width.values():
            assert 0 < row["optimum"]["gap_times_n_over_p"] < 1
            assert 0 < row["fixed law"]["gap_times_n_over_p"] < 1


def test_k3_tempered_the_balance_does_not_depend_on_the_width(rows):
    small, large = (rows["tempered"][width]["optimum"] for width in (16, 64))
    assert large["balance"] == pytest.approx(small["balance"], rel=0.1)
    assert large["kl_per_weight"] == pytest.approx(small["kl_per_weight"], rel=0.1)
    fixed = [rows["untempered"][width]["fixed law"]["balance"] for width in (16, 64)]
    assert fixed[1] > 2.5 * fixed[0]  # untempered it grows with the width


@pytest.mark.parametrize("rule", wide_networks.RULES)
def test_a_wide_network_is_trained_and_scored(rule, small, small_val):
    args = argparse.Namespace(seed=0, epochs=2, batch_size=30, lr=0.05, tau=0.1, samples=2)
    found = wide_networks.measure(16, rule, small, small_val, args)
    weights = 16 * (64 + 10)
    assert found["num_weights"] == pytest.approx(weights, abs=16 + 10)  # biases or not
    assert found["temperature"] == (1.0 if rule == "untempered" else pytest.approx(0.1 * 60 / found["num_weights"]))
    assert 0 <= found["accuracy"] <= 1


def test_tables_and_figure(rows, tmp_path):
    assert mean_field_limit.table(rows).count("\n") == 5
    found = {"num_weights": 100, "temperature": 1.0, "kl_per_weight": 0.1, "accuracy": 0.5, "nll": 1.0, "ece": 0.1}
    results = {rule: {64: found, 256: found} for rule in wide_networks.RULES}
    assert wide_networks.table(results).count("\n") == 5
    wide_networks.save(wide_networks.figure(results), tmp_path / "wide.png")
    assert (tmp_path / "wide.png").stat().st_size > 10_000
