"""The guide's Python runs as it stands, one block after another, and names every quantity there is."""

import re
from dataclasses import fields
from pathlib import Path

from posterity.likelihoods import ClassPrediction, RealPrediction

GUIDE = (Path(__file__).parents[2] / "docs" / "prediction.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
APART = {"kind", "by_sample", "num_samples"}


def test_the_blocks_run(capsys):
    names = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"block {number}", "exec"), names)
    assert len(BLOCKS) == 6
    assert 0.7 < names["inside"] <= 1
    assert "32 weight samples" in capsys.readouterr().out


def test_the_table_is_complete():
    public = {name for kind in (ClassPrediction, RealPrediction) for name in dir(kind) if name[0] != "_"}
    for name in public - APART | {field.name for field in fields(RealPrediction)}:
        assert re.search(rf"`(prediction\.|pt\.Prediction\.)?{name}\b", GUIDE), name
