"""Evidence that is made up: rows of a study from settings and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from posterity.claims.evidence import Evidence
from posterity.experiments.results import Results
from posterity.experiments.row import Row


def made_up(claim: str, **studies: Iterable[tuple[Mapping[str, Any], Mapping[str, float]]]) -> Evidence:
    """Evidence of these (settings, metrics) by study."""
    made = {
        name: Results(Row(str(number), dict(config), dict(metrics)) for number, (config, metrics) in enumerate(rows))
        for name, rows in studies.items()
    }
    return Evidence(claim, "cpu", made)
