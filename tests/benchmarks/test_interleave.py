import pytest

from interleave import measure, ratios


def test_ratios_are_taken_round_by_round():
    times = {"plain": [1.0, 2.0, 4.0], "ours": [0.5, 3.0, 8.0]}
    found = ratios(times, "plain")
    assert (found["ours"].median, found["ours"].low, found["ours"].high) == pytest.approx((1.5, 1.0, 1.75))
    assert found["plain"].median == 1.0


def test_every_candidate_runs_in_every_round_in_rotated_order():
    calls: list[str] = []
    candidates = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = measure(candidates, 3, 1)
    assert {name: len(t) for name, t in times.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"


def test_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="was not measured"):
        ratios({"a": [1.0]}, "b")
