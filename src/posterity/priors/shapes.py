"""The tables of priors, and priors by name with plain values.

    SHAPES   what a run can ask for by name: the rule, or a function of plain values that makes it
    KINDS    what a file can hold: the distribution over the flat vector, by its kind

A rule from outside has the distribution that it binds to as its `distribution`, whose kind is the rule's name.
A rule takes `scale` and `mean`; what else stands in its signature are its options. `slope` is an option of all: the
negative slope a of a leaky ReLU in Kaiming's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posterity.core.errors import UsageError
from posterity.core.options import Option, check_options, options_of
from posterity.core.registry import Registry
from posterity.priors.distributions import FlatDistribution
from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.laplace import FlatLaplace, Laplace
from posterity.priors.penalised import FlatPenalty
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import FlatMixture, mixture
from posterity.priors.scales import DEFAULT_SCALE, kaiming
from posterity.priors.student import FlatStudentT, StudentT
from posterity.priors.tabulated import FlatTabulated

Shape = Callable[..., PriorRule]


def _distribution(name: str, rule: Any) -> type[Prior]:
    found = getattr(rule, "distribution", None)
    if not (callable(rule) and isinstance(found, type) and issubclass(found, Prior) and found.kind == name):
        raise UsageError(
            f"the prior '{name}' must be a rule with `bind` and a `distribution`, a Prior of that kind, not {rule!r}"
        )
    return found


def _rule(name: str, rule: Any) -> Shape:
    _distribution(name, rule)
    checked: Shape = rule
    return checked


OURS = (FlatGaussian, FlatLaplace, FlatStudentT, FlatMixture, FlatTabulated, FlatPenalty, FlatDistribution)
SHAPES = Registry[Shape](
    "prior", "priors", {"gaussian": Gaussian, "laplace": Laplace, "student_t": StudentT, "mixture": mixture}, _rule
)
KINDS = Registry[type[Prior]]("prior", "priors", {prior.kind: prior for prior in OURS}, _distribution)
SLOPE = Option(0.0, ("number",))


def prior_options(name: str) -> dict[str, Any]:
    """What the prior `name` can be told beside scale and mean, with the defaults."""
    return {key: option.default for key, option in _known(name).items()}


def check_prior_options(name: str, options: dict[str, Any]) -> None:
    """Refuse an unknown prior, and options that it does not take or that are of another kind than it takes."""
    check_options(f"prior '{name}'", options, _known(name))


def build_prior(name: str, *, scale: float | str = DEFAULT_SCALE, mean: float | str = 0.0, **options: Any) -> PriorRule:
    """A prior by its name; `scale` is its standard deviation (a mixture's wide part's), `mean` may be "pretrained"."""
    rule = SHAPES.named(name)
    if options:
        check_prior_options(name, options)
    if isinstance(mean, str) and mean != "pretrained":
        raise UsageError(f"a prior's mean is a number or 'pretrained', not '{mean}'")
    slope = options.pop("slope", SLOPE.default)
    if slope and scale != "kaiming":
        raise UsageError(f"slope ({slope}) goes with prior scale 'kaiming', not with {scale}")
    return rule(scale=kaiming(slope) if slope else scale, mean=mean, **options)


def _known(name: str) -> dict[str, Option]:
    return {**options_of(SHAPES.named(name), beside=("scale", "mean")), "slope": SLOPE}
