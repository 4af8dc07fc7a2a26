"""Observation models."""

from __future__ import annotations

from typing import Any, TypeVar

from posterity.core.errors import UsageError, unknown_name
from posterity.likelihoods.categorical import Bernoulli, Categorical
from posterity.likelihoods.classes import ClassPrediction
from posterity.likelihoods.counts import CountPrediction
from posterity.likelihoods.gaussian import GaussianNoise
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.multi_label import MultiLabel, MultiLabelPrediction
from posterity.likelihoods.negative_binomial import NegativeBinomial
from posterity.likelihoods.ordinal import Ordinal
from posterity.likelihoods.poisson import Poisson
from posterity.likelihoods.prediction import Prediction
from posterity.likelihoods.real import RealPrediction
from posterity.likelihoods.student_noise import StudentTNoise
from posterity.likelihoods.student_prediction import StudentPrediction

Kind = TypeVar("Kind", bound=type[Likelihood])

LIKELIHOODS: dict[str, type[Likelihood]] = {
    c.kind: c
    for c in (Categorical, Bernoulli, GaussianNoise, Poisson, NegativeBinomial, Ordinal, MultiLabel, StudentTNoise)
}
_REGISTERED: dict[str, type[Likelihood]] = {}  # the users' own, by place


def register_likelihood(kind: Kind) -> Kind:
    """A decorator of a likelihood of one's own: files that name it are then loaded without naming it again."""
    _checked(kind)
    _REGISTERED[place_of(kind)] = kind
    return kind


def check_likelihood(given: object) -> None:
    """Refuse what is no likelihood: a name, a class, a loss."""
    if not isinstance(given, Likelihood):
        what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        known = ", ".join(f"{each.__name__}()" for each in LIKELIHOODS.values())
        raise UsageError(f"likelihood is one of {known} or one of your own, not {what}")


def place_of(kind: type[Likelihood]) -> str:
    """The name that a class is stored under: its kind if it is the library's, where it is defined if it is not."""
    ours = LIKELIHOODS.get(getattr(kind, "kind", "")) is kind
    return kind.kind if ours else f"{kind.__module__}:{kind.__qualname__}"


def build_likelihood(kind: str, *, given: type[Likelihood] | None = None, **options: Any) -> Likelihood:
    """A likelihood by its name; of one that is not the library's the class is `given`, or was registered.

    Nothing is imported because a file names it.
    """
    if ":" not in kind:
        if kind not in LIKELIHOODS:
            raise unknown_name("likelihood", kind, LIKELIHOODS)
        return LIKELIHOODS[kind](**options)
    found = _REGISTERED.get(kind) if given is None else _checked(given)
    if found is None:
        name = kind.rpartition(":")[2]
        raise UsageError(
            f"the likelihood is {kind}, which is not the library's: import it and give load(..., likelihood={name}), "
            "or put @register_likelihood on the class"
        )
    if place_of(found) != kind:
        raise UsageError(f"the likelihood that was saved is {kind}, not {place_of(found)}")
    return found(**options)


def _checked(kind: object) -> type[Likelihood]:
    if not (isinstance(kind, type) and issubclass(kind, Likelihood)):
        raise UsageError(f"a likelihood of your own is a subclass of posterity.likelihoods.Likelihood, not {kind!r}")
    return kind


__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "ClassPrediction",
    "CountPrediction",
    "GaussianNoise",
    "Likelihood",
    "MultiLabel",
    "MultiLabelPrediction",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Prediction",
    "RealPrediction",
    "StudentPrediction",
    "StudentTNoise",
    "build_likelihood",
    "check_likelihood",
    "place_of",
    "register_likelihood",
]
