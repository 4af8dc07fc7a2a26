"""Names in the text of the pages exist: functions, flags, files, links."""

import re
from importlib import import_module

import pytest
import typer
from pages import CODE, NAMES, ROOT, pieces

import posterity as pt
from posterity.cli.app import app
from posterity.data import DATASETS
from posterity.models import MODELS
from posterity.optim import OPTIMIZERS
from posterity.posteriors import POSTERIORS
from posterity.priors import KINDS

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FOLDERS = ("studies/", "src/", "tests/", "docs/", "benchmarks/", "examples/")


def _flags(command):
    own = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*(_flags(c) for c in getattr(command, "commands", {}).values()))


FLAGS = _flags(typer.main.get_command(app)) | {"--help"}


GROUPS = {registry.group for registry in (DATASETS, MODELS, OPTIMIZERS, POSTERIORS, KINDS)}  # of entry points


@pytest.mark.parametrize("page", NAMES)
def test_links_lead_somewhere(page):
    for target in LINK.findall(CODE.sub("", NAMES[page].read_text(encoding="utf-8"))):
        assert (NAMES[page].parent / target).exists(), target


@pytest.mark.parametrize("page", NAMES)
def test_flags_exist(page):
    for piece in pieces(NAMES[page]):
        if piece.kind == "text" and not piece.text.startswith("pip "):
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", piece.text):
                assert flag in FLAGS, piece.text


@pytest.mark.parametrize("page", NAMES)
def test_functions_and_files_exist(page):
    for piece in pieces(NAMES[page]):
        if piece.kind != "text":
            continue
        for name in re.findall(r"\bpt((?:\.[A-Za-z_]+)+)", piece.text):
            _follow(pt, name.strip(".").split("."))
        dotted = re.match(r"posterity((?:\.[A-Za-z_]+)+)", piece.text)
        if dotted and piece.text not in GROUPS:
            _follow(pt, dotted[1].strip(".").split("."))
        if piece.text.startswith(FOLDERS) and "*" not in piece.text:
            assert (ROOT / piece.text.split()[0]).exists(), piece.text


def _follow(found, names):
    for name in names:
        if not hasattr(found, name):
            import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
