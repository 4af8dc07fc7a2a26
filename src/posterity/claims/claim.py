"""Claim: what a source says, and how it is put to the test. One file a claim, in the same order in each.

    @claim("T6", source="000, figure 5.2")
    class KLReweighting(Claim):
        '''The question, in words.'''                       first line: the claim itself

        studies = {"runs": {...}}                           what is run (experiments.study), at scales smoke, cpu, paper
        curves = {"runs": ("val_accuracy", "kl")}           which numbers of each epoch are kept
        rule = "..."                                        when it counts as reproduced, written before the cpu run
        departs = {"cpu": "...", "paper": "..."}            what the scale changes against the source

        def measure(self, studies): ...                     what only the trained networks can tell, as JSON; optional
        def checks(self, evidence): ...                     the rule in code: effects against bounds
        def table(self, evidence): ...                      the numbers, for people
        def figure(self, evidence): ...                     like the source's

`measure` sees the runs' folders; all else is made from the evidence alone, which is a small file.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.figure import Figure

from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Verdict
from posterity.core.errors import UsageError, unknown_name
from posterity.experiments.results import Results
from posterity.experiments.study import Study

SMOKE, CPU, PAPER = "smoke", "cpu", "paper"
SCALES = (SMOKE, CPU, PAPER)
SOURCES = {
    "000": "Book, Training Bayesian neural networks, 2020",
    "001": "Aitchison, Bayesian filtering unifies adaptive and non-adaptive neural network optimization methods, 2020",
    "002": "Huix et al., Variational inference of overparameterized Bayesian neural networks, 2022",
    "003": "HWA: Hyperparameters weight averaging in Bayesian neural networks",
    "004": "Wolinski et al., An equivalence between Bayesian priors and penalties in variational inference, 2022",
}


@dataclass(frozen=True)
class Table:
    """A table for people: a head a column, cells as they are shown."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


class Claim(ABC):
    """See the module; `id` and `source` are given to the decorator."""

    id: ClassVar[str]
    source: ClassVar[str]
    studies: ClassVar[Mapping[str, Mapping[str, Any]]]
    curves: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    rule: ClassVar[str]
    departs: ClassVar[Mapping[str, str]]

    @property
    def title(self) -> str:
        """The claim in one line."""
        return self._words[0]

    @property
    def question(self) -> str:
        """What is asked, and why."""
        return " ".join(self._words[1:])

    @property
    def _words(self) -> list[str]:
        paragraphs = inspect.cleandoc(type(self).__doc__ or "").split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in paragraphs]

    def planned(self, scale: str) -> dict[str, Study]:
        """Its studies at a scale."""
        if scale not in SCALES:
            raise unknown_name("scale", scale, SCALES)
        return {name: Study.of({"name": f"{self.id}-{name}", **study}, scale=scale)
                for name, study in self.studies.items()}  # fmt: skip

    def rule_digest(self) -> str:
        """What changes when the rule does, in words or in code: that of the evidence says what it was judged by."""
        text = json.dumps([self.rule, inspect.getsource(type(self).checks)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def measure(self, studies: Mapping[str, Results]) -> dict[str, Any]:
        """What is measured on trained networks, as JSON has it: nothing by default."""
        del studies
        return {}

    @abstractmethod
    def checks(self, evidence: Evidence) -> list[Check]:
        """The rule, applied."""

    @abstractmethod
    def table(self, evidence: Evidence) -> Table:
        """The numbers behind the verdict."""

    @abstractmethod
    def figure(self, evidence: Evidence) -> Figure:
        """The source's figure, of our numbers."""

    def verdict(self, evidence: Evidence) -> Verdict:
        """What the evidence says."""
        return Verdict(self.checks(evidence))


_FOUND: dict[str, Claim] = {}


def claim(number: str, *, source: str) -> Callable[[type[Claim]], type[Claim]]:
    """Make a class the claim of this number."""

    def register(cls: type[Claim]) -> type[Claim]:
        if number in _FOUND:
            raise UsageError(f"there are two claims {number}")
        cls.id, cls.source = number, source
        _FOUND[number] = cls()
        return cls

    return register


def claims() -> dict[str, Claim]:
    """All claims by number, in the sources' order. Files of claims are those named by a letter and a number."""
    package = importlib.import_module("posterity.claims")
    for module in pkgutil.iter_modules(package.__path__):
        if re.fullmatch(r"[a-z]\d+", module.name):
            importlib.import_module(f"posterity.claims.{module.name}")
    return dict(sorted(_FOUND.items(), key=lambda pair: ("TAKHW".find(pair[0][0]), int(pair[0][1:]))))


def find(numbers: Iterable[str]) -> list[Claim]:
    """The claims of these numbers, in whichever case they are written."""
    known = claims()
    for number in numbers:
        if number.upper() not in known:
            raise unknown_name("claim", number, known)
    return [known[number.upper()] for number in dict.fromkeys(numbers)]
