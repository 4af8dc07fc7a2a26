"""Results that are kept in a JSON file as they come in, so that a long comparison can be stopped and resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Cached:
    """Results by name in `path`; those that were computed with other `settings` are not used."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, json.loads(json.dumps(settings))
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.results: dict[str, Any] = kept["results"] if kept.get("settings") == self.settings else {}

    def get(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of that name, computed and written at once if it is not there yet."""
        if name not in self.results:
            self.results[name] = json.loads(json.dumps(compute()))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".partial")
            partial.write_text(json.dumps({"settings": self.settings, "results": self.results}, indent=1) + "\n")
            os.replace(partial, self.path)
        result: dict[str, Any] = self.results[name]
        return result
