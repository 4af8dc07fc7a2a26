"""reproduce(claim): its studies through the sweep engine, then evidence, table, figure and verdict as files.

OUT/T6/cpu/runs/            a sweep's folder for each study: what was interrupted goes on, what is finished stays
OUT/T6/cpu/evidence.json    all that the rest is made of
OUT/T6/cpu/figure.png, verdict.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posterity import data
from posterity.claims.claim import Claim
from posterity.claims.evidence import Evidence, about
from posterity.claims.verdict import Verdict
from posterity.core.errors import PosterityError
from posterity.experiments.results import Results
from posterity.experiments.row import FAILED
from posterity.experiments.study import Study
from posterity.experiments.sweep import sweep
from posterity.report.figures import save
from posterity.storage import merge_json, read_json, write_text

OUT = Path("runs") / "claims"
EVIDENCE, FIGURE, VERDICT, TIME = "evidence.json", "figure.png", "verdict.json", "time.json"


@dataclass(frozen=True)
class Reproduction:
    """A claim that was put to the test, and where its files are."""

    claim: Claim
    evidence: Evidence
    verdict: Verdict
    folder: Path


def folder_of(claim: Claim, scale: str, out: Path = OUT) -> Path:
    """Where a claim's files are."""
    return out / claim.id / scale


def reproduce(
    claim: Claim,
    scale: str,
    *,
    out: Path = OUT,
    workers: int = 1,
    progress: bool = False,
) -> Reproduction:
    """Do what is left of a claim's studies, judge it, and write its files."""
    folder = folder_of(claim, scale, out)
    planned = claim.planned(scale)
    _fetch_data(planned, progress)
    folder.mkdir(parents=True, exist_ok=True)
    studies = {name: _sweep(study, folder / name, workers, progress) for name, study in planned.items()}
    spent = read_json(folder / TIME).get("seconds", 0.0)
    digests = {name: study.digest for name, study in planned.items()}
    facts = {**about(spent, digests), "rule": claim.rule_digest(), "workers": workers}
    evidence = Evidence(claim.id, scale, studies, _plain(claim.measure(studies)), facts)
    evidence.write(folder / EVIDENCE, claim.curves)
    return judge(claim, folder)


def judge(claim: Claim, folder: Path) -> Reproduction:
    """Table, figure and verdict of the evidence in `folder`: what is read is what is judged."""
    evidence = Evidence.read(folder / EVIDENCE)
    verdict = claim.verdict(evidence)
    save(claim.figure(evidence), folder / FIGURE)
    write_text(folder / VERDICT, json.dumps(as_json(claim, verdict), indent=1) + "\n")
    return Reproduction(claim, evidence, verdict, folder)


def as_json(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    """A verdict for machines; a bound that there is none of is null."""
    checks = [asdict(check) for check in verdict.checks]
    for check in checks:
        check["effect"] = {k: v if abs(v) < float("inf") else None for k, v in check["effect"].items()}
    return {"claim": claim.id, "verdict": verdict.word, "checks": checks}


def _sweep(study: Study, folder: Path, workers: int, progress: bool) -> Results:
    """The study's results; diverging is one of them, failing is an error: a claim is not judged by what is left."""
    began = time.monotonic()
    try:
        several = min(workers, len(study.items))
        results = sweep(study, out=folder, workers=several, progress=progress)
    finally:
        place = folder.parent / TIME
        spent: float = read_json(place).get("seconds", 0.0)
        merge_json(place, {"seconds": round(spent + time.monotonic() - began, 1)})
    failed = [row for row in results if row.state == FAILED]
    if failed:
        raise PosterityError(
            f"{len(failed)} of {len(results)} items of {study.name} failed, such as: {failed[0].error}"
        )
    return results


def _fetch_data(planned: Mapping[str, Study], progress: bool) -> None:
    """Before the first run: what needs data that cannot be had would fail in each of them."""
    settings = [item.config for study in planned.values() for item in study.items.values()]
    needed = {config.get("dataset") for config in settings} | {name for s in planned.values() for name in s.ood}
    for info in data.describe():
        if info.name in needed and not info.available:
            data.fetch(info.name, progress=progress)


def _plain(measured: Mapping[str, Any]) -> dict[str, Any]:
    """As a file would give it back."""
    found: dict[str, Any] = json.loads(json.dumps(measured, allow_nan=False))
    return found
