"""The guide's table names every quantity that a prediction has."""

import re
from dataclasses import fields

from pages import NAMES

from posterity.likelihoods import ClassPrediction, RealPrediction

APART = {"kind", "by_sample", "num_samples", "table", "rescalable"}


def test_the_table_is_complete():
    guide = NAMES["docs/prediction.md"].read_text(encoding="utf-8")
    public = {name for kind in (ClassPrediction, RealPrediction) for name in dir(kind) if name[0] != "_"}
    for name in public - APART | {field.name for field in fields(RealPrediction)}:
        assert re.search(rf"`(prediction\.|pt\.Prediction\.)?{name}\b", guide), name
