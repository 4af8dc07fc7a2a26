"""The laboratory: every claim of the sources as an experiment with a rule that decides it (SPEC 13)."""

from posterity.claims.claim import CPU, PAPER, SCALES, SMOKE, Claim, Table, claim, claims, find
from posterity.claims.evidence import Evidence
from posterity.claims.reproduce import Reproduction, reproduce
from posterity.claims.verdict import Check, Effect, Verdict, differences, over_seeds

__all__ = [
    "CPU",
    "PAPER",
    "SCALES",
    "SMOKE",
    "Check",
    "Claim",
    "Effect",
    "Evidence",
    "Reproduction",
    "Table",
    "Verdict",
    "claim",
    "claims",
    "differences",
    "find",
    "over_seeds",
    "reproduce",
]
