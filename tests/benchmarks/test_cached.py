"""Results that are kept in a file as they come in."""

import json

import pytest

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
