"""The table of models in docs/networks.md has all models, with the sizes and options that they have."""

import re

import pytest
from pages import NAMES

from posterity.models import MODELS, build_model, model_options

ROW = re.compile(
    r"^\| (?P<names>`[^|]+`) \| (?P<inputs>[^|]+) \| (?P<sizes>[^|]*) \| (?P<options>[^|]*) \|$", re.MULTILINE
)
PAGE = NAMES["docs/networks.md"].read_text(encoding="utf-8")
TABLE = PAGE[PAGE.index("## Models by name") : PAGE.index("## A trained network")]
ROWS = {name: row for row in ROW.finditer(TABLE) for name in re.findall(r"`([^`]+)`", row["names"])}
SHAPES = {"lenet5": (1, 28, 28)}


def test_all_models_are_there():
    assert set(ROWS) == set(MODELS)


@pytest.mark.parametrize("name", [name for name in MODELS if ROWS[name]["sizes"].strip()])
def test_sizes(name):
    model = build_model(name, SHAPES.get(name, (3, 32, 32)), 10)
    assert f"{sum(p.numel() for p in model.parameters()):,}" in ROWS[name]["sizes"]


@pytest.mark.parametrize("name", MODELS)
def test_options(name):
    written = dict(re.findall(r"`(\w+)=([^`]+)`", ROWS[name]["options"]))
    assert written == {key: repr(value).replace("'", '"') for key, value in model_options(name).items()}
