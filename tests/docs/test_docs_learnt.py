"""The page that draws a recipe from our results: the library's defaults are its, and it quotes verdicts as they are."""

import ast
import re

from pages import NAMES, ROOT

from posterity.claims.gallery import stored_pages
from posterity.experiments import Run
from posterity.initialisation import DEFAULT_RELATIVE_SD
from posterity.objectives import GRADIENTS
from posterity.objectives.balance import HIGHEST
from posterity.objectives.tempering import AUTO_MOST, AUTO_TAU
from posterity.optim import SD_RATE
from posterity.training.methods import METHODS
from posterity.training.methods.gradient import OPTIMIZER, SD_OPTIMIZER, SMALL_OPTIMIZER

PAGE = NAMES["docs/what_we_learnt.md"].read_text(encoding="utf-8")
DEFAULTS = {name: field.default for name, field in Run.model_fields.items()}
# What a run takes where its field says nothing.
TAKEN = {
    **DEFAULTS,
    "optimizer": OPTIMIZER,
    "lr": METHODS[OPTIMIZER].default_lr,
    "optimizer_sd": SD_OPTIMIZER,
    "lr_sd": SD_RATE,
    "relative_sd": DEFAULT_RELATIVE_SD,
    "gradient": next(iter(GRADIENTS)),
    "tau": AUTO_TAU,
}
WANTED = {
    "optimizer", "lr", "optimizer_sd", "lr_sd", "schedule", "temperature", "tau", "relative_sd", "gradient", "average",
    "estimator", "samples", "prior_scale",
}  # fmt: skip


def test_the_recipe_is_the_defaults():
    given = {name: ast.literal_eval(value) for name, value in re.findall(r"`(\w+) = ([^`]+)`", PAGE)}
    assert given.keys() == WANTED
    assert given == {name: TAKEN[name] for name in WANTED}
    assert DEFAULTS["optimizer"] is None  # by rule
    assert f"`{SMALL_OPTIMIZER}` for small regressions" in PAGE
    assert f"from 0 up to at most {HIGHEST * AUTO_MOST:g}" in PAGE


def test_verdicts_are_quoted_as_they_are():
    words = {page.claim.id: page.word for page in stored_pages(ROOT / "docs" / "gallery")}
    quoted = re.findall(r"\[(\w\d+)\]\(gallery/\1\.md\) \(([\w ]+)\)", PAGE)
    assert len(quoted) > 10
    assert {number: words[number] for number, _ in quoted} == dict(quoted)
    assert len(re.findall(r"\]\(gallery/\w\d+\.md\)", PAGE)) == len(quoted), "each link to a claim says its verdict"


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
