"""The committed gallery: its evidence is of today's protocols and rules, its pages are what they make, its runs repeat.

A run is repeated from its stored settings for its first epoch where its curves were kept, else whole, as is a function.
Processors round differently: a number that does not come out again is held against those of trainings that are shaken
(benchmarks/shaken.py).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest

from posterity.claims import claims
from posterity.claims.evidence import Evidence
from posterity.claims.gallery import as_markdown, index, stored_pages
from posterity.experiments import Run, execute
from posterity.experiments.build import build_module
from posterity.experiments.functions import FUNCTIONS
from posterity.experiments.kept_data import keep_data
from posterity.experiments.row import FINISHED, flat, metrics_of
from posterity.training import Callback
from shaken import SHAKEN, Shaken, is_one_of, near, shake

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
CLAIMS = claims()
STORED = {number: claim for number, claim in CLAIMS.items() if (GALLERY / f"{number}.json").exists()}
DEFAULTS = flat(Run().as_dict())
each = pytest.mark.parametrize("claim", STORED.values(), ids=STORED)


@pytest.fixture(scope="module", autouse=True)
def _kept_data():
    """MNIST and CIFAR-10 are read once."""
    with keep_data():
        yield


class Enough(Exception):
    """The first epoch is over."""


class FirstEpoch(Callback):
    """Keeps the first epoch's record, and ends the training there."""

    kept = False

    def on_epoch(self, training, record):
        self.record = record
        raise Enough


@each
def test_evidence_is_of_todays_protocol_and_rule(claim):
    evidence = Evidence.read(GALLERY / f"{claim.id}.json")
    planned = claim.planned(evidence.scale)
    assert evidence.scale == "cpu"
    assert evidence.about["studies"] == {name: study.digest for name, study in planned.items()}
    assert evidence.about["rule"] == claim.rule_digest(), "a rule is not changed after the results are known"
    for name, study in planned.items():
        assert [row.key for row in evidence[name]] == list(study.items)


@each
def test_the_file_is_small(claim):
    assert (GALLERY / f"{claim.id}.json").stat().st_size < 500_000
    assert (GALLERY / f"{claim.id}.png").stat().st_size < 800_000


def test_pages_are_what_the_evidence_makes():
    pages = stored_pages(GALLERY)
    for page in pages:
        assert (GALLERY / f"{page.claim.id}.md").read_text(encoding="utf-8") == as_markdown(page)
    assert (GALLERY / "README.md").read_text(encoding="utf-8") == index(pages)
    html = (GALLERY / "gallery.html").read_text(encoding="utf-8")
    for page in pages:
        assert f'<section id="{page.claim.id}">' in html


# A quarter to half a minute each, so that all tests end well within twenty; their studies run at a small scale in
# tests/contracts/test_claims.py.
LONG = ("A1", "H3", "K5", "T1", "W3")
REPEAT_ALL = "POSTERITY_REPEAT_ALL"


@each
def test_an_item_repeats(claim, tmp_path, fetched):
    if claim.id in LONG and not os.environ.get(REPEAT_ALL):
        pytest.skip(f"takes long: {REPEAT_ALL}=1 make test")
    evidence = Evidence.read(GALLERY / f"{claim.id}.json")
    for name, study in claim.planned(evidence.scale).items():
        rows = [row for row in evidence[name] if row.state == FINISHED]
        row = min(rows, key=lambda row: (row.metrics.get("train_seconds", 0.0) / max(1, len(row.history)), row.key))
        item = study.items[row.key]
        if item.run is not None:
            fetched(item.run.dataset)
        repeat = partial(called, item) if item.run is None else partial(trained, item.run, row, study, tmp_path / name)
        before, close = stored_numbers(row), exactly if item.run is None else near
        assert before
        again = [repeat()]
        if not all(close(again[0][key], value, key) for key, value in before.items()):
            again += [repeat(shaken=seed) for seed in range(1, SHAKEN + 1)]
        for key, value in before.items():
            found = [numbers[key] for numbers in again]
            assert close(found[0], value, key) or is_one_of(value, found), (key, value, found)


def stored_numbers(row):
    """Of the first epoch of a run, or of the whole where no curves were kept."""
    if row.history and row.config.get("function") is None:
        return {key: value for key, value in row.history[0].items() if key != "epoch"}
    return {key: value for key, value in row.metrics.items() if not key.endswith("seconds")}


def trained(run, row, study, folder, shaken=0):
    """The same of a run, from weights that are `shaken` with that seed."""
    # What has become an option since is its default.
    assert {k: row.config.get(k, DEFAULTS.get(k)) for k in flat(run.as_dict())} == flat(run.as_dict())
    callbacks = [Shaken(shaken)] if shaken else []
    if row.history:
        return first_epoch(run, folder / str(shaken), callbacks)
    return metrics_of(execute(run, folder / str(shaken), samples=study.samples, ood=study.ood, callbacks=callbacks))


def called(item, shaken=0):
    """The same of a function: one without weights repeats, whoever rounds."""
    function = FUNCTIONS[item.function]
    module = sys.modules[function.__module__]

    def build(*given):
        network = build_module(*given)
        shake(network.parameters(), shaken)
        return network

    with pytest.MonkeyPatch.context() as patch:
        if shaken and hasattr(module, "build_module"):
            patch.setattr(module, "build_module", build)
        return function(**{key: value for key, value in item.config.items() if key != "function"})


def exactly(again, before, key):
    return again == pytest.approx(before, rel=1e-4, abs=1e-6)


def first_epoch(run, folder, callbacks):
    callback = FirstEpoch()
    with pytest.raises(Enough):
        execute(run, folder, callbacks=[*callbacks, callback])
    return callback.record
