"""`posterity reproduce`: the claims of the sources, put to the test; and the gallery of what came of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posterity.cli.output import note, print_json, print_table
from posterity.core.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from posterity.claims import Claim, Reproduction

LIST, ALL, GALLERY = "list", "all", "gallery"


def reproduce_command(
    what: Annotated[list[str], typer.Argument(help="claims such as T6, or one of: list, all, gallery")],
    scale: Annotated[str, typer.Option(help="smoke (seconds), cpu (minutes), or paper (the source's own)")] = "cpu",
    out: Annotated[Path, typer.Option(help="folder of the claims' runs")] = Path("runs/claims"),
    workers: Annotated[int, typer.Option(min=1, help="processes, which share the threads")] = 2,
    to: Annotated[Path, typer.Option(help="folder of the gallery")] = Path("docs/gallery"),
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress display")] = False,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """Reproduce claims of the sources: runs, table, figure and verdict; what is finished is not run again.

    `list` shows all claims, `all` reproduces them one after the other, `gallery` writes pages from stored results.

    Example: posterity reproduce T6 --scale smoke
    """
    from posterity.claims import SCALES, claims, find

    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    words = [word for word in what if word in (LIST, ALL, GALLERY)]
    if words and len(what) > 1:
        raise UsageError(f"'{words[0]}' stands alone: posterity reproduce {words[0]}")
    if words == [LIST]:
        _list(list(claims().values()), json)
    elif words == [GALLERY]:
        from posterity.claims.gallery import write_gallery

        pages = write_gallery(out, to, scale=scale)
        print_json({"gallery": str(to), "claims": pages}) if json else note(f"gallery of {len(pages)} claims in {to}")
    else:
        chosen = list(claims().values()) if words else find(what)
        found = _reproduce(chosen, scale, out, workers, quiet, show=not json)
        if json:
            from posterity.claims.reproduce import as_json

            print_json([as_json(each.claim, each.verdict) for each in found])


def _list(known: list[Claim], json: bool) -> None:
    if json:
        print_json([{"claim": c.id, "source": c.source, "title": c.title, "rule": c.rule} for c in known])
    else:
        print_table("claims", ["", "source", "claim"], [[c.id, c.source, c.title] for c in known])


def _reproduce(
    chosen: list[Claim], scale: str, out: Path, workers: int, quiet: bool, *, show: bool
) -> list[Reproduction]:
    from posterity.claims import reproduce
    from posterity.experiments.sweep_display import in_words

    found, began = [], time.monotonic()
    for number, each in enumerate(chosen):
        left = (time.monotonic() - began) / number * (len(chosen) - number) if number else None
        before = "" if left is None else f", about {in_words(left)} left"
        note(f"{each.id} ({number + 1} of {len(chosen)}{before}): {each.title}")
        found.append(reproduce(each, scale, out=out, workers=workers, progress=not quiet))
        if show:
            _show(found[-1])
    if show and len(found) > 1:
        print_table("verdicts", ["", "claim", "verdict"], [[f.claim.id, f.claim.title, f.verdict.word] for f in found])
    return found


def _show(found: Reproduction) -> None:
    """Table, checks and verdict."""
    table = found.claim.table(found.evidence)
    print_table(f"{found.claim.id}: {found.claim.title}", table.heads, table.rows)
    checks = [[c.words, str(c.effect), c.wanted, c.outcome] for c in found.verdict.checks]
    print_table("what was asked", ["", "found, 95 % interval", "wanted", ""], checks)
    doubt = (
        " (a trial of the machinery on tiny data: its verdict means nothing)" if found.evidence.scale == "smoke" else ""
    )
    print(f"{found.claim.id} at scale {found.evidence.scale}: {found.verdict.word}{doubt}")
    note(f"figure and evidence in {found.folder}")
