"""The rule of T9 on made-up landscapes."""

import numpy as np
import pytest

from posterity.claims.claim import find
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED, UNDECIDED
from posterity.experiments import Results
from posterity.experiments.row import Row


@pytest.mark.parametrize(("slope", "verdict"), [(0.3, REPRODUCED), (-0.3, NOT_REPRODUCED), (0.0, UNDECIDED)])
def test_verdict_follows_the_slope_over_beta2(slope, verdict):
    random = np.random.default_rng(4)
    rows = []
    for number in range(60):
        betas = tuple(random.uniform(0, 1, 2).tolist())
        nll = 1 + slope * betas[1] + random.normal(0, 0.05)
        config = {"dataset": "mnist", "seed": number, "optimizer_options.betas": betas}
        rows.append(Row(str(number), config, {"nll": nll, "accuracy": 1 - nll / 3}))
    (claim,) = find(["T9"])
    assert claim.verdict(Evidence("T9", "cpu", {"runs": Results(rows)})).word == verdict
