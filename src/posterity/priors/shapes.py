"""The tables of priors, and priors by name with plain values.

    SHAPES   what a run can ask for by name: the rule, or a function of plain values that makes it
    KINDS    what a file can hold: the distribution over the flat vector, by its kind

A rule takes `scale` and `mean`; what else stands in its signature are its options. `slope` is an option of all: the
negative slope a of a leaky ReLU in Kaiming's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posterity.core.errors import UsageError, unknown_name
from posterity.core.options import Option, check_options, options_of
from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.laplace import FlatLaplace, Laplace
from posterity.priors.penalised import FlatPenalty
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import FlatMixture, mixture
from posterity.priors.scales import DEFAULT_SCALE, kaiming
from posterity.priors.student import FlatStudentT, StudentT
from posterity.priors.tabulated import FlatTabulated

SHAPES: dict[str, Callable[..., PriorRule]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "student_t": StudentT,
    "mixture": mixture,
}
KINDS: dict[str, type[Prior]] = {
    prior.kind: prior for prior in (FlatGaussian, FlatLaplace, FlatStudentT, FlatMixture, FlatTabulated, FlatPenalty)
}
SLOPE = Option(0.0, ("number",))


def prior_options(name: str) -> dict[str, Any]:
    """What the prior `name` can be told beside scale and mean, with the defaults."""
    return {key: option.default for key, option in _known(name).items()}


def check_prior_options(name: str, options: dict[str, Any]) -> None:
    """Refuse an unknown prior, and options that it does not take or that are of another kind than it takes."""
    check_options(f"prior '{name}'", options, _known(name))


def build_prior(name: str, *, scale: float | str = DEFAULT_SCALE, mean: float | str = 0.0, **options: Any) -> PriorRule:
    """A prior by its name; `scale` is its standard deviation (a mixture's wide part's), `mean` may be "pretrained"."""
    if options or name not in SHAPES:
        check_prior_options(name, options)
    if isinstance(mean, str) and mean != "pretrained":
        raise UsageError(f"a prior's mean is a number or 'pretrained', not '{mean}'")
    slope = options.pop("slope", SLOPE.default)
    if slope and scale != "kaiming":
        raise UsageError(f"slope ({slope}) goes with prior scale 'kaiming', not with {scale}")
    return SHAPES[name](scale=kaiming(slope) if slope else scale, mean=mean, **options)


def _known(name: str) -> dict[str, Option]:
    if name not in SHAPES:
        raise unknown_name("prior", name, SHAPES)
    return {**options_of(SHAPES[name], beside=("scale", "mean")), "slope": SLOPE}
