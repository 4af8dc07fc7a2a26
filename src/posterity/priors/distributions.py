"""Any `torch.distributions` object over the reals as the prior of every weight, independently.

    log prior(w) = sum_i log p(w_i)

A Normal, a Laplace, a StudentT with df > 2 and a mixture of two Normals with one mean are our own priors exactly. Of
others E_q log p is taken by quadrature, and samples by tabulated quantiles. Distributions of PyTorch's own classes,
mixtures of them among them, are stored by name and parameters; of other classes a table of the log density is.

A distribution without a standard deviation (Cauchy) has for `sd` half the width of its central 68 %, from which the
posterior's own spread starts.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.gaussian import Gaussian
from posterity.priors.laplace import Laplace
from posterity.priors.location_scale import LocationScale
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import ScaleMixture
from posterity.priors.student import StudentT
from posterity.priors.tabulated import Tabulated

ONE_SD = 0.8413447460685429  # Phi(1)
REACH, POINTS = 12.0, 9601  # of a table, in sds on either side


def prior_rule(prior: PriorRule | Distribution | float | str | None) -> PriorRule:
    """The rule that a user's word for a prior stands for: a rule, a distribution, or the scale of a Gaussian."""
    if prior is None:
        return Gaussian()
    if isinstance(prior, (int, float, str)):
        return Gaussian(prior)
    return FromDistribution(prior) if isinstance(prior, Distribution) else prior


@dataclass(frozen=True)
class FromDistribution:
    """What a user asks for: every weight with this distribution, by itself."""

    distribution: Distribution

    def __post_init__(self) -> None:
        known = self.distribution
        if known.batch_shape or known.event_shape:
            raise UsageError(
                f"a prior is the distribution of one weight: {known} is one of shape "
                f"{tuple(known.batch_shape + known.event_shape)}; give numbers as its parameters, and different priors "
                "for different weights by Parts"
            )
        support: Any = known.support
        if not support.check(torch.tensor([-1e4, -1e-4, 1e-4, 1e4], dtype=_dtype(known))).all():
            raise UsageError(f"a weight may be any real number, but {known} allows only {known.support}")
        centre_and_spread(known)

    def bind(self, layout: Layout, weights: Tensor) -> Prior:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        known = self.distribution
        mean, sd = centre_and_spread(known)
        ours = _ours(known, mean, sd)
        if ours is not None:
            return ours.bind(layout, weights)
        plain = described(known)
        if plain is None:
            grid = mean + sd * torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)
            return Tabulated(grid, known.log_prob(grid.to(_dtype(known)))).bind(layout, weights)
        return FlatDistribution(torch.full_like(weights, sd), torch.full_like(weights, mean), plain=plain)


class FlatDistribution(LocationScale):
    """Independent weights of one distribution of PyTorch's, which `plain` describes."""

    kind = "distribution"

    def __init__(self, sd: Tensor, mean: Tensor | None = None, *, plain: dict[str, Any]) -> None:
        super().__init__(sd, mean)
        self.plain = plain
        self._mean, self._sd = centre_and_spread(built(plain))

    def log_standard(self, z: Tensor) -> Tensor:
        """log p(mean + sd z) + log sd."""
        known = built(self.plain, like=z)
        return known.log_prob(self._mean + self._sd * z) + math.log(self._sd)

    @classmethod
    def empty(cls, num_weights: int, *, plain: dict[str, Any] | None = None, **options: Any) -> FlatDistribution:
        """The same distribution, its place and width to be loaded."""
        assert plain is not None
        return super().empty(num_weights, plain=plain, **options)

    def options(self) -> dict[str, Any]:
        """The distribution, and whether a mean is stored."""
        return {**super().options(), "plain": self.plain}


def _ours(known: Distribution, mean: float, sd: float) -> PriorRule | None:
    """The same as one of our own priors, if it is one exactly."""
    if type(known) is distributions.Normal:
        return Gaussian(sd, mean)
    if type(known) is distributions.Laplace:
        return Laplace(sd, mean)
    if type(known) is distributions.StudentT and known.stddev.isfinite():
        return StudentT(sd, float(known.df), mean)
    if type(known) is not distributions.MixtureSameFamily:
        return None
    of, shares = known.component_distribution, known.mixture_distribution.probs
    if type(of) is distributions.Normal and len(shares) == 2 and of.loc[0] == of.loc[1] and of.scale[0] != of.scale[1]:
        wide = int(of.scale.argmax())
        return ScaleMixture(float(shares[wide]), float(of.scale[wide]), float(of.scale[1 - wide]), mean)
    return None


def centre_and_spread(known: Distribution) -> tuple[float, float]:
    """Mean and sd, or median and half the width of the central 68 % where there are none."""
    try:
        mean, sd = float(known.mean), float(known.stddev)
    except NotImplementedError:
        mean, sd = math.nan, math.nan
    if math.isfinite(mean) and math.isfinite(sd):
        return mean, sd
    try:
        low, middle, high = known.icdf(torch.tensor([1 - ONE_SD, 0.5, ONE_SD], dtype=_dtype(known))).tolist()
    except NotImplementedError as error:
        raise UsageError(
            f"{known} has neither a standard deviation nor quantiles, from which a posterior could start: give a prior "
            "that has, or bayesian's own StudentT"
        ) from error
    return middle, (high - low) / 2


def described(known: Distribution) -> dict[str, Any] | None:
    """Class and parameters as plain values, if it is one of PyTorch's and these are numbers or distributions again."""
    name = type(known).__name__
    if getattr(distributions, name, None) is not type(known):
        return None
    found: dict[str, Any] = {}
    for parameter in inspect.signature(type(known)).parameters:
        if parameter == "logits" and "probs" in found:  # the same once more
            continue
        value = known.__dict__.get(parameter, known.__dict__.get(f"_{parameter}"))
        if isinstance(value, Distribution):
            found[parameter] = described(value)
        elif isinstance(value, Tensor):
            found[parameter] = value.double().tolist()
        elif value is not None and parameter != "validate_args":
            return None
        if parameter in found and found[parameter] is None:
            return None
    return {"name": name, "parameters": found} if found else None


def built(plain: dict[str, Any], like: Tensor | None = None) -> Distribution:
    """The inverse of `described`, of the type and in the place of `like`."""
    given: dict[str, Any] = {}
    for name, value in plain["parameters"].items():
        if isinstance(value, dict):
            given[name] = built(value, like)
        else:
            double = torch.tensor(value, dtype=torch.float64)
            given[name] = double if like is None else double.to(like)
    # What is not finite stays so: the training says where.
    made: Distribution = getattr(distributions, plain["name"])(**given, validate_args=False)
    return made


def _dtype(known: Distribution) -> torch.dtype:
    tensors = [value for value in known.__dict__.values() if isinstance(value, Tensor) and value.is_floating_point()]
    return tensors[0].dtype if tensors else torch.get_default_dtype()
