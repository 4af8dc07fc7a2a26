"""What the pages of the documentation hold: blocks, commands, and names in running text, in the page's order."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = {page.relative_to(ROOT).as_posix(): page for page in PAGES}

FENCE = r"(?P<not_run><!-- not run: [^\n]+ -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$"
INLINE = r"(?<!`)`(?P<inline>[^`]+)`(?!`)"
INDENTED = r"^ {4}(?P<indented>(?:posterity|make|python|torchrun) [^\n]+)$"
CODE = re.compile(f"{FENCE}|{INLINE}|{INDENTED}", re.MULTILINE | re.DOTALL)
PROGRAMS = ("posterity", "make", "python", "torchrun")


@dataclass(frozen=True)
class Piece:
    """A piece of code: a whole block (`language` as it stands there), one command, or `text` between other words."""

    kind: str  # python, toml, command, text, not run
    text: str

    @property
    def words(self) -> list[str]:
        """Of a command."""
        return shlex.split(self.text, comments=True)


def pieces(page: Path) -> list[Piece]:
    """All code of a page."""
    found = []
    for match in CODE.finditer(page.read_text(encoding="utf-8")):
        if match["inline"] is not None:
            text = " ".join(match["inline"].split())
            found.append(Piece("command" if _is_command(text) else "text", text))
        elif match["indented"] is not None:
            found.append(Piece("command", match["indented"]))
        elif match["not_run"]:
            found.append(Piece("not run", match["body"]))
        elif match["language"]:
            found.append(Piece(match["language"], match["body"]))
        else:
            lines = match["body"].replace("\\\n", " ").splitlines()
            found += [Piece("command", line) for line in lines if line.split("#")[0].strip()]
    return found


def _is_command(text: str) -> bool:
    """Whether text in backticks is a whole command: a program of ours with what it is to do."""
    return text.startswith(tuple(f"{program} " for program in PROGRAMS))
