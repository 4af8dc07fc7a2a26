"""The tables of README and docs that are made from the schema of a run and from the gallery's evidence.

`python docs/tables.py` writes them anew, and the modules that are made from the schema (docs/generated.py).

A table stands between <!-- table: NAME --> and <!-- end -->.
"""

from __future__ import annotations

import re
from pathlib import Path

from generated import FILES

from posterity.claims.gallery import stored_pages, summary
from posterity.experiments import Run
from posterity.training import Settings

PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MARKS, BACKSLASHED = re.compile(r"[*|]"), r"\\\g<0>"  # which a table would read as its own


def settings_table() -> str:
    """What `fit` takes, and `posterity train` as flags."""
    return _table(list(Settings.model_fields))


def run_table() -> str:
    """What describes data, network, prior and posterior of a run."""
    return _table([name for name in Run.model_fields if name not in Settings.model_fields])


def _table(names: list[str]) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for panel, own in Run.by_panel().items():
        shown = [name for name in own if name in names]
        if shown:
            lines.append(f"| **{panel}** | | |")
        for name in shown:
            field = Run.model_fields[name]
            default = "" if field.default in (None, {}, ()) else f"`{field.default}`"
            lines.append(f"| `{name}` | {default} | {MARKS.sub(BACKSLASHED, field.description or '')} |")
    return "\n".join(lines) + "\n"


def verdicts_table() -> str:
    """The claims of the sources and what came of them."""
    return summary(stored_pages(DOCS / "gallery"), "docs/gallery") + "\n"


DOCS = Path(__file__).parent
TABLES = {"settings": settings_table, "run": run_table, "verdicts": verdicts_table}


def filled(text: str) -> str:
    """`text` with its tables as they should be."""
    return PLACE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def main() -> None:
    """Write the tables of all pages, and the modules."""
    for page in [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]:
        before = page.read_text(encoding="utf-8")
        if filled(before) != before:
            page.write_text(filled(before), encoding="utf-8")
            print(f"wrote {page.name}")
    for module, source in FILES.items():
        if not module.exists() or module.read_text(encoding="utf-8") != source():
            module.write_text(source(), encoding="utf-8")
            print(f"wrote {module.name}")


if __name__ == "__main__":
    main()
