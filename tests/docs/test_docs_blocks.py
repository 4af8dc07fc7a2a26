"""Every Python block and every command of README, CONTRIBUTING and docs runs, in the page's order.

A page's blocks share one namespace and one folder with its commands, so that what one makes the next finds. Blocks run
as they stand. Commands of `posterity` run with these substitutions, which make them small and need no network:

    data sets that are fetched      -> digits             (`data fetch` itself is told that the data are there)
    lenet5, and no --model at all   -> mlp
    mlp and mean-field              --hidden 8
    --epochs                        4; of a run that is prolonged 6
    --steps 12 of range-test, --draws 4 of gradient-variance
    --splits 2 --epochs 1 of uci    its help where the data are not there
    sweep of a study                at its scale smoke, in this process
    reproduce                       as it stands at scale smoke; else the list (tests/contracts runs all claims)
    files that a reader has         images.npz, mine.csv, mine.npz are there

`torchrun` starts real processes. `make` must name targets of the Makefile; a script of benchmarks must know the options
that it is given.
"""

import contextlib
import io
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
import tomli_w
from pages import NAMES, ROOT, pieces

from posterity import data
from posterity.claims import claims
from posterity.data.uci import uci_file
from posterity.experiments import Record, Run
from posterity.experiments.study import Study
from posterity.training import ProlongedWarning

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SMALL = {"cifar10": "digits", "mnist": "digits", "lenet5": "mlp"}
EPOCHS, PROLONGED = "4", "6"
NOT_RUN = {"docs/experiments.md": 1, "docs/many_machines.md": 1}  # blocks that say so, by page

# What a page promises of its own output.
PROMISES = {
    "docs/prediction.md": lambda names, printed: 0.7 < names["inside"] <= 1 and "32 weight samples" in printed,
}


def test_blocks_that_are_not_run_are_counted():
    counted = {name: [p.kind for p in pieces(page)].count("not run") for name, page in NAMES.items()}
    assert {name: count for name, count in counted.items() if count} == NOT_RUN


@pytest.mark.filterwarnings(f"always::{ProlongedWarning.__module__}.ProlongedWarning")
@pytest.mark.parametrize("page", NAMES)
def test_a_page_runs(page, cli, tmp_path, monkeypatch):
    _files(tmp_path)
    monkeypatch.setattr(data, "fetch", lambda name: _known(name, tmp_path))
    namespace, printed = {"__name__": "page"}, io.StringIO()
    for piece in pieces(NAMES[page]):
        if piece.kind == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(piece.text, page, "exec"), namespace)
        elif piece.kind == "toml":
            _config(piece.text, tmp_path)
        elif piece.kind == "command":
            programs = {"posterity": _posterity, "make": _make, "python": _script, "torchrun": _torchrun}
            programs[piece.words[0]](piece, cli, monkeypatch)
        else:
            assert piece.kind in ("text", "not run"), f"{page} has a block of {piece.kind}"
    assert PROMISES.get(page, lambda *_: True)(namespace, printed.getvalue())


def _posterity(piece, cli, monkeypatch):
    words = _small(piece.words[1:])
    done = cli(*words)
    assert done.code == 0, f"{piece.text}: {done.err}"
    if words[0] == "train" and "--help" not in words:
        folder = words[words.index("--out") + 1]
        assert Record.read(folder).finished
        drawn = {path.name for path in (Record.read(folder).folder / "figures").iterdir()}
        assert "training.png" in drawn
        assert ("tuning.png" in drawn) == ("yellowfin" in words)
    for flag in ("--figure", "--out"):
        if flag in words:
            assert (ROOT.cwd() / words[words.index(flag) + 1]).exists(), piece.text


def _small(words):
    """The command as it is run here; one without options is a mention, and is asked for its help."""
    if words[0] == "reproduce":
        assert {word for word in words[1:2] if word not in ("list", "all", "gallery")} <= claims().keys(), words
        return [*words, "--workers", "1", "--quiet"] if "smoke" in words else ["reproduce", "list"]
    if len(words) == 1 or any(word.isupper() for word in words):
        return [words[0], "--help"]
    if words[0] == "uci" and uci_file("uci-concrete") is None:
        return ["uci", "--help"]
    if words[0] == "sweep" and words[1].endswith(".toml"):
        place = words[words.index("--out") + 1]
        return ["sweep", str(ROOT / words[1]), "--scale", "smoke", "--quiet", "--out", place]
    words = [SMALL.get(word, word) for word in words]
    begun = "--resume" in words or "--run" in words or "--config" in words
    if words[0] in ("train", "range-test", "gradient-variance") and not begun:
        if "--model" not in words:
            words += ["--model", "mlp"]
        if words[words.index("--model") + 1] in ("mlp", "mean-field"):
            words += ["--hidden", "8"]
    if words[0] == "train":
        words += ["--quiet"]
        if "--resume" not in words:
            words += ["--epochs", EPOCHS]
        elif "--epochs" in words:
            words += ["--epochs", PROLONGED]
    less = {
        "range-test": ["--steps", "12"],
        "gradient-variance": ["--draws", "4"],
        "uci": ["--splits", "2", "--epochs", "1"],
    }
    return words + less.get(words[0], [])


def _torchrun(piece, cli, monkeypatch):
    at = piece.words.index("posterity") + 1
    words = _small(piece.words[at:])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *piece.words[1:at], *words],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{piece.text}: {done.stderr}"
    assert Record.read(words[words.index("--out") + 1]).finished


def _make(piece, cli, monkeypatch):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(piece.words[1:]) <= set(targets), piece.text


def _script(piece, cli, monkeypatch):
    path, given = ROOT / piece.words[1], piece.words[2:]
    assert path.is_file(), piece.text
    if path.parent.name != "benchmarks":
        return
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code, piece.text
    assert all(word in said.getvalue() for word in given if word.startswith("--")), piece.text


def _config(text, folder):
    """Part of a config file that a run is read from, or a study."""
    if "[axes]" in text:
        assert Study.of(tomllib.loads(text)).items
        return
    whole = folder / "part.toml"
    whole.write_text(tomli_w.dumps({"dataset": "digits"}) + text, encoding="utf-8")
    Run.read(whole)


def _files(folder):
    generator = np.random.default_rng(0)
    np.savez(folder / "images.npz", x=generator.uniform(0, 16, (20, 64)).astype("float32"))
    x = generator.normal(size=(60, 3))
    y = x @ [1.0, -2.0, 0.5]
    np.savez(folder / "mine.npz", x=x, y=y)
    np.savetxt(folder / "mine.csv", np.column_stack([x, y]), delimiter=",", header="a,b,c,y", comments="")


def _known(name, folder):
    assert name in data.names()
    return folder
