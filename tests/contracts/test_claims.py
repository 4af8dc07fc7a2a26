"""Every claim: complete, planned at three scales, and carried out at scale smoke with figure, table and verdict."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from posterity.claims import CPU, PAPER, SCALES, SMOKE, claims, reproduce
from posterity.claims.claim import SOURCES
from posterity.claims.verdict import FAILS, HOLDS, OPEN

CLAIMS = claims()
DETERMINISTIC = {"T4-descents", "W1-penalties"}  # nothing in them is drawn


def test_there_is_one_for_each_of_the_sources():
    wanted = {"T": 14, "A": 3, "K": 5, "H": 3, "W": 3}
    assert list(CLAIMS) == [f"{letter}{i}" for letter, count in wanted.items() for i in range(1, count + 1)]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_it_says_what_it_is(claim):
    assert claim.source.partition(",")[0] in SOURCES
    assert claim.title.endswith(".")
    assert len(claim.question) > 100
    assert len(claim.rule) > 60
    assert set(claim.departs) >= {CPU, PAPER}
    assert set(claim.curves) <= set(claim.studies)
    assert Path(inspect.getfile(type(claim))).stem == claim.id.lower()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_it_is_planned(claim, scale):
    for study in claim.planned(scale).values():
        assert study.items
        if scale == CPU and study.name not in DETERMINISTIC and not study.ranges:
            assert len({item.config["seed"] for item in study.items.values()}) >= 3


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_it_runs_at_scale_smoke(claim, tmp_path):
    found = reproduce(claim, SMOKE, out=tmp_path)
    assert {check.outcome for check in found.verdict.checks} <= {HOLDS, FAILS, OPEN}
    words = [check.words for check in found.verdict.checks]
    assert len(set(words)) == len(words)
    table = claim.table(found.evidence)
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.heads)}
    assert (found.folder / "figure.png").stat().st_size > 5000
    assert not re.search("nan", str(table.rows))
