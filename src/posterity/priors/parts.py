"""Different priors for different weight tensors, chosen by name.

    Parts({"fc.*": Laplace(0.1), "*": Gaussian("kaiming")})        the first pattern that matches a name decides

The weights of each prior are gathered from the flat vector, and its results put back in their places. Where all are
Gaussian the result is one Gaussian, with the hand-written gradients of that case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.distributions import prior_rule
from posterity.priors.gaussian import FlatGaussian
from posterity.priors.patterns import first_matches
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.shapes import KINDS


@dataclass(frozen=True)
class Parts:
    """What a user asks for: a prior for each pattern of names."""

    rules: Mapping[str, PriorRule]

    def bind(self, layout: Layout, weights: Tensor) -> Prior:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        patterns = list(self.rules)
        chosen = first_matches(patterns, layout.names)
        missing = [name for name, pattern in zip(layout.names, chosen, strict=True) if pattern is None]
        if missing:
            raise UsageError(f"no pattern gives a prior to {', '.join(missing)}; add one, such as '*' at the end")
        places = [patterns.index(p) for p in chosen if p is not None]
        priors = []
        for number, pattern in enumerate(patterns):
            entries = tuple(e for e, p in zip(layout.entries, places, strict=True) if p == number)
            rule = prior_rule(self.rules[pattern])
            priors.append(rule.bind(Layout(entries), gather(weights, layout.sizes, places, number)))
        if any(isinstance(prior, FlatParts) for prior in priors):
            raise UsageError("parts cannot themselves be made of parts: write their patterns in one")
        if all(isinstance(prior, FlatGaussian) for prior in priors):
            sd = scatter([prior.sd for prior in priors], layout.sizes, places)
            mean = scatter([prior.mean.expand(len(prior.sd)) for prior in priors], layout.sizes, places)
            return FlatGaussian(sd, mean if bool((mean != 0).any()) else None)
        return FlatParts(priors, sizes=layout.sizes, places=places)


def gather(vector: Tensor, sizes: Sequence[int], places: Sequence[int], number: int) -> Tensor:
    """The weights (..., n) in `vector` (..., N) of the tensors that belong to part `number`."""
    pieces = vector.split(list(sizes), dim=-1)
    return torch.cat([piece for piece, place in zip(pieces, places, strict=True) if place == number], dim=-1)


def scatter(vectors: Sequence[Tensor], sizes: Sequence[int], places: Sequence[int]) -> Tensor:
    """The inverse of `gather` for all parts."""
    lengths = [[s for s, p in zip(sizes, places, strict=True) if p == number] for number in range(len(vectors))]
    pieces = [iter(vector.split(length, dim=-1)) for vector, length in zip(vectors, lengths, strict=True)]
    return torch.cat([next(pieces[place]) for place in places], dim=-1)


class FlatParts(Prior):
    """Several priors over one flat vector: consecutive tensors of `sizes`, tensor k under prior `places[k]`."""

    kind = "parts"
    by_weight = ()

    def __init__(self, priors: Sequence[Prior], *, sizes: Sequence[int], places: Sequence[int]) -> None:
        super().__init__()
        self.priors = nn.ModuleList(priors)
        self.sizes, self.places = list(sizes), list(places)

    @property
    def factorised(self) -> bool:
        """Whether all of them are."""
        return all(prior.factorised for prior in self._priors())

    @property
    def mean(self) -> Tensor:
        """Mean of each weight (N,)."""
        return self._put([prior.mean.expand(len(prior.sd)) for prior in self._priors()])

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""
        return self._put([prior.sd for prior in self._priors()])

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""
        return self._each(lambda prior, w: prior.log_density_by_weight(w), weights)

    def energy_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of what a point posterior pays."""
        return self._each(lambda prior, w: prior.energy_by_weight(w), weights)

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w)."""
        return self._each(lambda prior, m, s: prior.expected_log_density(m, s), mean, sd)

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        return self._each(lambda prior, eps: prior.sample(eps), noise)

    def check_learnable(self) -> None:
        """Refuse the first part whose scale cannot be learnt."""
        for prior in self._priors():
            prior.check_learnable()

    def fit_scale(self, mean: Tensor, sd: Tensor, sizes: Sequence[int]) -> None:
        """The scale of each weight tensor under its own prior."""
        if list(sizes) != self.sizes:
            raise UsageError(f"these parts have tensors of sizes {self.sizes}, not {list(sizes)}")
        for number, prior in enumerate(self._priors()):
            own = [s for s, p in zip(sizes, self.places, strict=True) if p == number]
            own_mean, own_sd = (gather(v, sizes, self.places, number) for v in (mean, sd))
            prior.fit_scale(own_mean, own_sd, own)

    @classmethod
    def empty(
        cls,
        num_weights: int,
        *,
        parts: Sequence[Mapping[str, Any]] = (),
        sizes: Sequence[int] = (),
        places: Sequence[int] = (),
        **options: Any,
    ) -> FlatParts:
        """The same parts, to be loaded."""
        lengths = [sum(s for s, p in zip(sizes, places, strict=True) if p == k) for k in range(len(parts))]
        priors = [KINDS[part["kind"]].empty(n, **part) for part, n in zip(parts, lengths, strict=True)]
        return cls(priors, sizes=sizes, places=places)

    def options(self) -> dict[str, Any]:
        """What each part is, and where."""
        parts = [{"kind": prior.kind, **prior.options()} for prior in self._priors()]
        return {"parts": parts, "sizes": self.sizes, "places": self.places}

    def _priors(self) -> list[Prior]:
        return list(self.priors)  # type: ignore[arg-type]

    def _put(self, vectors: Sequence[Tensor]) -> Tensor:
        return scatter(vectors, self.sizes, self.places)

    def _each(self, value: Callable[..., Tensor], *vectors: Tensor) -> Tensor:
        return self._put(
            [
                value(prior, *(gather(v, self.sizes, self.places, number) for v in vectors))
                for number, prior in enumerate(self._priors())
            ]
        )
