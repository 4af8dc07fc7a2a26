"""The gallery: a page a claim, and an index with all verdicts, made from stored evidence.

TO/T6.json, T6.png     evidence and figure, copied from OUT/T6/SCALE where a claim was run there
TO/T6.md               question, verdict, checks, table, figure, what differs from the source, command
TO/index.md            all verdicts at a glance
TO/gallery.html        the same as one page that needs no network
"""

from __future__ import annotations

from pathlib import Path


def write_gallery(out: Path, to: Path, *, scale: str) -> dict[str, str]:
    """Write the pages; the verdicts by claim."""
    raise NotImplementedError
