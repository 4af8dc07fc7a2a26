"""The gallery: a page a claim and an index with all verdicts, made from stored evidence.

    TO/T6.json, T6.png     evidence and figure; copied from OUT/T6/SCALE where the claim was run there
    TO/T6.md               question, verdict, what was asked, table, figure, what differs from the source, command
    TO/README.md           all verdicts at a glance
    TO/gallery.html        the same as one page that needs no network

Pages are made from the evidence that is in TO, so they can be made anew where no run is; verdicts are computed each
time. A claim that was not run at the scale has a page that says so.
"""

from __future__ import annotations

import base64
import html
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from posterity.claims.claim import CPU, SOURCES, Claim, Table, claims
from posterity.claims.evidence import Evidence
from posterity.claims.reproduce import EVIDENCE, folder_of
from posterity.claims.verdict import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Verdict
from posterity.experiments.sweep_display import in_words
from posterity.report.figures import save
from posterity.storage import write_text

NOT_RUN = "not run"
MARKS = {REPRODUCED: "✔ reproduced", NOT_REPRODUCED: "✘ not reproduced", UNDECIDED: "? undecided", NOT_RUN: "– not run"}
CHECK_HEADS = ("asked", "found, 95 % interval", "wanted", "outcome")


@dataclass(frozen=True)
class Page:
    """A claim with what there is of it."""

    claim: Claim
    scale: str
    evidence: Evidence | None
    verdict: Verdict | None

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return NOT_RUN if self.verdict is None else self.verdict.word

    @property
    def command(self) -> str:
        """What makes it."""
        return f"posterity reproduce {self.claim.id} --scale {self.scale}"

    @property
    def checks(self) -> Table:
        """What was asked, found and wanted."""
        checks = [] if self.verdict is None else self.verdict.checks
        return Table(CHECK_HEADS, [[c.words, str(c.effect), c.wanted, c.outcome] for c in checks])

    @property
    def how(self) -> str:
        """How the numbers came about: items, seeds, time, versions."""
        assert self.evidence is not None
        about, seeds = self.evidence.about, self.evidence.seeds
        items = sum(len(results) for results in self.evidence.studies.values())
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        several = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
        took = f"{in_words(about['seconds'])} with {about['workers']} worker{'s' if about['workers'] > 1 else ''}"
        return f"{items} runs or computations, {several}; {took}; {versions}."

    @property
    def departs(self) -> str:
        """What the scale changes against the source."""
        return self.claim.departs.get(self.scale, "A trial of the machinery on tiny data: its verdict means nothing.")

    @property
    def place(self) -> str:
        """The source's place, and the source."""
        number = self.claim.source.partition(",")[0]
        return f"{self.claim.source} ({SOURCES[number]})"


def write_gallery(out: Path, to: Path, *, scale: str) -> dict[str, str]:
    """Write all pages; the verdicts by claim."""
    to.mkdir(parents=True, exist_ok=True)
    for each in claims().values():
        there = folder_of(each, scale, out) / EVIDENCE
        if there.exists():
            shutil.copyfile(there, to / f"{each.id}.json")
    pages = stored_pages(to, scale=scale)
    for page in pages:
        if page.evidence is not None:
            save(page.claim.figure(page.evidence), to / f"{page.claim.id}.png")
        write_text(to / f"{page.claim.id}.md", as_markdown(page))
    write_text(to / "README.md", index(pages))
    write_text(to / "gallery.html", as_html(pages, to))
    return {page.claim.id: page.word for page in pages}


def stored_pages(folder: Path, *, scale: str = CPU) -> list[Page]:
    """All claims with the evidence that lies in `folder`; those without any are of the `scale` that they want."""
    found = []
    for each in claims().values():
        path = folder / f"{each.id}.json"
        evidence = Evidence.read(path) if path.exists() else None
        verdict = None if evidence is None else each.verdict(evidence)
        found.append(Page(each, scale if evidence is None else evidence.scale, evidence, verdict))
    return found


def index(pages: Sequence[Page]) -> str:
    """All verdicts, as Markdown."""
    counts = {word: sum(page.word == word for page in pages) for word in MARKS}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    rows = [[f"[{p.claim.id}]({p.claim.id}.md)", p.claim.title, p.claim.source, MARKS[p.word]] for p in pages]
    return "\n".join(
        [
            "# Claims of the sources, put to the test",
            "",
            f"{len(pages)} claims: {words}. Each was judged by a rule that stood in its file before it was run, from "
            "effects with their 95 % intervals over seeds; a verdict is of the scale that was run. Each page says what "
            "that changes against the source. `posterity reproduce all` runs them, `posterity reproduce gallery` "
            "makes these pages and [one page with everything](gallery.html).",
            "",
            *_markdown_table(Table(["", "claim", "source", "verdict"], rows)),
            "",
            *(f"- {number}: {words}" for number, words in SOURCES.items()),
            "",
        ]
    )


def summary(pages: Sequence[Page], folder: str) -> str:
    """The verdicts in a few lines, for a README: a row a source, its claims with their marks."""
    sources: dict[str, list[Page]] = {}
    for page in pages:
        sources.setdefault(page.claim.source.partition(",")[0], []).append(page)
    rows = []
    for number, own in sources.items():
        links = ", ".join(f"[{p.claim.id}]({folder}/{p.claim.id}.md) {MARKS[p.word].partition(' ')[0]}" for p in own)
        rows.append([SOURCES[number], links])
    counts = {word: sum(page.word == word for page in pages) for word in MARKS}
    words = ", ".join(f"{MARKS[word].partition(' ')[0]} {word}: {count}" for word, count in counts.items() if count)
    return "\n".join([*_markdown_table(Table(["source", "claims"], rows)), "", words])


def as_markdown(page: Page) -> str:
    """A claim's page."""
    claim = page.claim
    lines = [f"# {claim.id}: {claim.title}", "", f"Source: {page.place}. [All claims](README.md)", "", claim.question]
    lines += ["", f"**Verdict: {page.word}**" + ("" if page.evidence is None else f" (scale {page.scale})"), ""]
    if page.evidence is None:
        lines += [f"There was no time to run it at scale {page.scale}: there is no verdict.", ""]
    else:
        lines += [f"![{claim.id}]({claim.id}.png)", "", *_markdown_table(claim.table(page.evidence)), ""]
        lines += ["## What was asked", "", *_markdown_table(page.checks), ""]
    lines += ["## The rule", "", claim.rule, ""]
    lines += ["## What differs from the source", "", page.departs, ""]
    lines += ["## How to repeat it", "", "```", page.command, "```", ""]
    if page.evidence is not None:
        lines += [f"{page.how} Every number is in [{claim.id}.json]({claim.id}.json).", ""]
    return "\n".join(lines)


def _markdown_table(table: Table) -> list[str]:
    rule = "|".join("---" for _ in table.heads)
    rows = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in table.rows]
    return [f"| {' | '.join(table.heads)} |", f"|{rule}|", *(f"| {row} |" for row in rows)]


def as_html(pages: Sequence[Page], to: Path) -> str:
    """One page: the index, then every claim, with figures inside."""
    words: Mapping[str, int] = {word: sum(page.word == word for page in pages) for word in MARKS}
    counts = "".join(f'<li class="{_kind(word)}"><b>{count}</b> {word}</li>' for word, count in words.items() if count)
    rows = "".join(
        f'<tr><td><a href="#{p.claim.id}">{p.claim.id}</a></td><td>{html.escape(p.claim.title)}</td>'
        f'<td class="source">{html.escape(p.claim.source)}</td>'
        f'<td class="verdict {_kind(p.word)}">{MARKS[p.word]}</td></tr>'
        for p in pages
    )
    sections = "\n".join(_section(page, to) for page in pages)
    template = Template((Path(__file__).parent / "gallery.html").read_text(encoding="utf-8"))
    return template.substitute(count=len(pages), counts=counts, rows=rows, sections=sections)


def _section(page: Page, to: Path) -> str:
    claim, say = page.claim, html.escape
    parts = [f"<h2>{claim.id}. {say(claim.title)}</h2>", f'<p class="source">{say(page.place)}</p>']
    parts += [f'<p class="verdict {_kind(page.word)}">{MARKS[page.word]}</p>', f"<p>{say(claim.question)}</p>"]
    if page.evidence is None:
        parts.append(f"<p>There was no time to run it at scale {say(page.scale)}: there is no verdict.</p>")
    else:
        picture = base64.b64encode((to / f"{claim.id}.png").read_bytes()).decode()
        image = f'<img alt="figure of {claim.id}" src="data:image/png;base64,{picture}">'
        parts.append(f'<div class="wide">{image}</div>')  # on a narrow window it scrolls, and can still be read
        parts += [_html_table(claim.table(page.evidence)), "<h3>What was asked</h3>", _html_table(page.checks)]
    parts += ["<h3>The rule</h3>", f"<p>{say(claim.rule)}</p>", "<h3>What differs from the source</h3>"]
    parts += [f"<p>{say(page.departs)}</p>"]
    parts += [f"<pre>{say(page.command)}</pre>"]
    if page.evidence is not None:
        parts.append(f'<p class="source">{say(page.how)}</p>')
    return f'<section id="{claim.id}">\n' + "\n".join(parts) + "\n</section>"


def _html_table(table: Table) -> str:
    def cells(tag: str, row: Iterable[str]) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)

    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells('th', table.heads)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'


def _kind(word: str) -> str:
    return word.replace(" ", "-")
