"""Mixture: K distributions of one family over the same flat vector, each as likely as the others (an ensemble).

    q = (1/K) sum_k q_k,    mean = (1/K) sum_k mean_k,    sd^2 = (1/K) sum_k (sd_k^2 + mean_k^2) - mean^2
    log q(w) = logsumexp_k log q_k(w) - log K
    w = w_k(eps),    k = floor(K Phi(z)) for one standard normal z,    eps the noise of a draw from q_k

A prediction of S >= K samples takes its draw s from component s mod K, so that the components are used as evenly as S
allows. The entropy of a mixture has no closed form. With H_k those of the components,

    (1/K) sum_k H_k  <=  entropy(q)  <=  (1/K) sum_k H_k + log K,    KL(q || prior) <= (1/K) sum_k KL(q_k || prior)

(by concavity and by convexity; the same log K is the most that either is off by, where no two components overlap).
`entropy` and `kl` are these means. With them the ELBO of q is the mean of the components' ELBOs: components that are
trained each by itself, as `fit` does it, maximise it.

Limits: K = 1 is the component; K points are `samples`; K times the same component is that one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.posteriors.posterior import Posterior, PriorLike


class Mixture(Posterior):
    """Of copies of `components`, which are of one family and over vectors of one length."""

    kind = "mixture"
    trainable = False  # as one: `fit` trains its components, each by itself

    def __init__(self, components: Sequence[Posterior]) -> None:
        super().__init__()
        kinds = {(q.kind, q.num_weights) for q in components}
        if len(kinds) != 1:
            found = ", ".join(f"{kind} of {size} weights" for kind, size in sorted(kinds)) or "none"
            raise UsageError(f"a mixture has one or more components of one family over one vector, not {found}")
        if isinstance(components[0], Mixture):
            raise UsageError("a mixture of mixtures is a mixture: give the components of all of them")
        self.components = nn.ModuleList(copy.deepcopy(q) for q in components)

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int) -> Mixture:
        raise UsageError(
            "a mixture is made of networks of another family, not started: make one of these with bayesian(...), then "
            "ensemble(net, 5)"
        )

    @property
    def count(self) -> int:
        """K."""
        return len(self.components)

    @property
    def parts(self) -> list[Posterior]:
        """The components q_k."""
        return list(self.components)  # type: ignore[arg-type]

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The components' mean (N,)."""
        return torch.stack([q.mean for q in self.parts]).mean(0)

    @property
    def sd(self) -> Tensor:
        """From within the components and from between them (N,)."""
        return self.variance().sqrt()

    def variance(self) -> Tensor:
        """By the law of total variance (N,)."""
        within = torch.stack([q.variance() for q in self.parts]).mean(0)
        return within + torch.stack([q.mean for q in self.parts]).var(0, correction=0)

    @property
    def noise_size(self) -> int:
        """One number chooses the component, which takes its own of the others."""
        return 1 + max(q.noise_size for q in self.parts)

    @property
    def support(self) -> Tensor | None:
        """All vectors, where the components are points, or bags of one size."""
        each = [q.support if q.random else q.mean.unsqueeze(0) for q in self.parts]
        found = [vectors for vectors in each if vectors is not None]
        equal = len({len(vectors) for vectors in found}) == 1
        return torch.cat(found) if len(found) == self.count and equal else None

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (..., N) for standard normal `noise` (..., noise_size); k's gradient is in the draws from q_k."""
        rows = noise.reshape(-1, noise.shape[-1])
        place = torch.special.ndtr(rows[:, 0].double()) * self.count
        chosen = place.long().clamp_(max=self.count - 1)
        order = chosen.argsort(stable=True)
        drawn = [q.sample(self._noise_of(q, rows[chosen == k])) for k, q in enumerate(self.parts)]
        return torch.cat(drawn)[order.argsort()].reshape(*noise.shape[:-1], -1)

    @staticmethod
    def _noise_of(q: Posterior, rows: Tensor) -> Tensor:
        return rows[:, 1 : 1 + q.noise_size]

    def evenly(self, noise: Tensor, first: int, total: int) -> Tensor:
        """Draw s from component s mod K, where there are at least K draws."""
        if total < self.count:
            return noise
        component = torch.arange(first, first + len(noise)) % self.count
        chooses = torch.special.ndtri((component.double() + 0.5) / self.count)
        return torch.cat([chooses.to(noise).unsqueeze(-1), noise[:, 1:]], dim=-1)

    def log_density(self, weights: Tensor) -> Tensor:
        """log q(w) (S,)."""
        logs = torch.stack([q.log_density(weights) for q in self.parts])
        return logs.logsumexp(0) - math.log(self.count)

    def entropy(self) -> Tensor:
        """The mean of the components' entropies: at most log K less than that of the mixture."""
        return torch.stack([q.entropy() for q in self.parts]).mean()

    def has_kl(self, prior: PriorLike) -> bool:
        """Whether the components have one."""
        return all(q.has_kl(prior) for q in self.parts)

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """The mean of the components' shares (N,), whose sum is at most log K more than the KL."""
        return torch.stack([q.kl_by_weight(prior) for q in self.parts]).mean(0)

    def kl(self, prior: PriorLike) -> Tensor:
        """The mean of the components' KLs: at most log K more than that of the mixture."""
        return torch.stack([q.kl(prior) for q in self.parts]).mean()

    def weight_index(self, parameter: Tensor, index: int) -> int:
        """As the component has it whose parameter it is."""
        owner = next(q for q in self.parts if any(p is parameter for p in q.parameters()))
        return owner.weight_index(parameter, index)

    @classmethod
    def empty(cls, num_weights: int, *, components: Sequence[dict[str, Any]] = (), **options: Any) -> Mixture:
        """Components of these kinds and options, to be loaded."""
        from posterity.posteriors import posterior_named  # knows this family, too

        return cls([posterior_named(each["kind"]).empty(num_weights, **each) for each in components])

    def options(self) -> dict[str, Any]:
        """The components' kinds and options."""
        return {"components": [{"kind": q.kind, **q.options()} for q in self.parts]}

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """The parameters of all components, by what they are."""
        found: dict[str, list[nn.Parameter]] = {}
        for q in self.parts:
            for name, parameters in q.groups().items():
                found.setdefault(name, []).extend(parameters)
        return found
