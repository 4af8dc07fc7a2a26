"""A claim put to the test: files, evidence that is whole, what is finished is not done again, the gallery's pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from small import Descent

from posterity import data
from posterity.claims import claims, gallery
from posterity.claims.evidence import Evidence
from posterity.claims.reproduce import judge, reproduce
from posterity.core.errors import CorruptFileError, FetchError, PosterityError, UsageError
from posterity.experiments import worker
from posterity.experiments.results import Results
from posterity.experiments.row import Row

described = data.describe()


@pytest.fixture
def found(tmp_path):
    return reproduce(Descent(), "cpu", out=tmp_path / "runs")


def test_files_and_verdict(found):
    names = {path.name for path in found.folder.iterdir()}
    assert names == {"descent", "evidence.json", "figure.png", "verdict.json", "time.json"}
    assert found.verdict.word == "reproduced"
    written = json.loads((found.folder / "verdict.json").read_text())
    assert written["verdict"] == "reproduced"
    assert written["checks"][0]["effect"]["mean"] == pytest.approx(0.75)


def test_what_is_finished_is_not_done_again(found, tmp_path, monkeypatch):
    before = (found.folder / "evidence.json").read_text()
    monkeypatch.setattr(worker, "FUNCTIONS", {})  # whoever calls one fails
    again = reproduce(Descent(), "cpu", out=tmp_path / "runs")
    assert again.evidence.results.column("factor") == found.evidence.results.column("factor")
    strip = re.compile(r'"seconds":[\d.]+')
    assert strip.sub("", (found.folder / "evidence.json").read_text()) == strip.sub("", before)


def test_an_item_that_failed_is_no_evidence(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "FUNCTIONS", {})
    with pytest.raises(PosterityError, match="6 of 6 items of T0-descent failed"):
        reproduce(Descent(), "cpu", out=tmp_path)


def test_data_that_are_not_there_are_fetched_before_the_first_run(tmp_path, monkeypatch):
    asked = []

    def fetch(name, *, progress):
        asked.append(name)
        raise FetchError("no network")

    monkeypatch.setattr(data, "describe", lambda: [replace(info, available=False) for info in described])
    monkeypatch.setattr(data, "fetch", fetch)
    with pytest.raises(FetchError, match="no network"):
        reproduce(claims()["T6"], "cpu", out=tmp_path / "runs")
    assert asked == ["cifar10"]
    assert not (tmp_path / "runs").exists()


def test_evidence_holds_what_it_was_made_of(found):
    evidence = Evidence.read(found.folder / "evidence.json")
    assert evidence.measured == {"items": 6}
    assert evidence.seeds == [0, 1, 2]
    assert evidence.about["rule"] == Descent().rule_digest()
    assert evidence.about["studies"] == {"descent": Descent().planned("cpu")["descent"].digest}
    live = Results.read(found.folder / "descent")
    assert [(r.key, dict(r.config), dict(r.metrics)) for r in evidence.results] == [
        (r.key, dict(r.config), dict(r.metrics)) for r in live
    ]


def test_curves_come_back_and_what_is_not_finite_is_nothing(tmp_path):
    records = [{"epoch": 1, "nll": 0.1234567890123, "x": 1.0}, {"epoch": 2, "nll": float("nan")}]
    row = Row("a", {"seed": 3, "hidden": (4, 5)}, {"nll": float("inf"), "kl": 2.0}, records=records)
    path = tmp_path / "evidence.json"
    Evidence("T0", "cpu", {"runs": Results([row])}).write(path, {"runs": ("nll",)})
    (again,) = Evidence.read(path).results
    assert again.history == [{"epoch": 1, "nll": 0.123457}, {"epoch": 2}]
    assert again.config == {"seed": 3, "hidden": (4, 5)}
    assert again.metrics == {"kl": 2.0}


def test_no_evidence_and_corrupt_evidence(tmp_path):
    with pytest.raises(UsageError, match="no results"):
        Evidence.read(tmp_path / "evidence.json")
    (tmp_path / "evidence.json").write_text("{}")
    with pytest.raises(CorruptFileError, match="no evidence"):
        judge(Descent(), tmp_path)


def test_the_gallery_is_made_from_evidence_alone(found, tmp_path, monkeypatch):
    other = Descent()
    other.id = "T9"
    monkeypatch.setattr(gallery, "claims", lambda: {"T0": Descent(), "T9": other})
    to = tmp_path / "gallery"
    assert gallery.write_gallery(tmp_path / "runs", to, scale="cpu") == {"T0": "reproduced", "T9": "not run"}
    pages = {path.name: path.read_bytes() for path in to.iterdir()}
    assert pages.keys() == {"T0.md", "T0.json", "T0.png", "T9.md", "README.md", "gallery.html"}
    gallery.write_gallery(tmp_path / "nowhere", to, scale="cpu")
    assert {path.name: path.read_bytes() for path in to.iterdir()} == pages
    assert "no verdict" in pages["T9.md"].decode()
    assert "[T0](T0.md)" in pages["README.md"].decode()


def test_the_page_needs_no_network_and_is_well_formed(found, tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "claims", lambda: {"T0": Descent()})
    gallery.write_gallery(tmp_path / "runs", tmp_path, scale="cpu")
    page = (tmp_path / "gallery.html").read_text()
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "url(" not in page
    assert "@import" not in page
    assert "&lt;tags&gt;" in page
    for tag in ("section", "table", "div", "td", "p"):
        assert page.count(f"<{tag}>") + page.count(f"<{tag} ") == page.count(f"</{tag}>"), tag


def test_scales_and_words():
    claim = Descent()
    assert claim.title == "Without momentum the error shrinks by 1 - lr a step."
    assert len(claim.planned("paper")["descent"].items) == 18
    with pytest.raises(UsageError, match="scale"):
        claim.planned("huge")
