"""Where a posterior starts: the means of the weights, and their standard deviations.

    init                         mean                                            drawn with the sd
    module                       the module's present weights
    weights by name              these
    uniform                      prior_mean + sqrt(3) sd u,    u ~ U(-1, 1)      the prior's          (source 000, 4.2)
    kaiming, xavier, glorot      sd z,    z ~ N(0, 1)                            by rule (priors.scales; 000, 2.3, 2.4)

    sd = relative_sd times the prior's sd (a tenth by default),    or times the sd the mean was drawn with,
    or softplus(rho)

Drawn are the tensors of at least two axes and the biases beside one (linear maps, convolutions, embeddings, recurrent
and attention layers). Scales and shifts of norms, and other vectors, keep the module's values: zero-mean scales would
silence the layers before them. Where sds are relative to the initialisation's, what was kept has softplus(KEPT_RHO).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError, unknown_name
from posterity.core.layout import Layout
from posterity.core.randomness import generator
from posterity.priors import SCALES, Prior
from posterity.priors.scales import sd_of

MODULE, UNIFORM = "module", "uniform"
DRAWN = (UNIFORM, *SCALES)
INITS = (MODULE, *DRAWN)
DEFAULT_RELATIVE_SD = 0.1
KEPT_RHO = -5.0
PRIOR, INIT = "prior", "init"  # what `relative_sd` may be relative to
Init = str | Mapping[str, Tensor]


@dataclass(frozen=True)
class Start:
    """How means and standard deviations start, see the header."""

    init: Init
    rho: float | None = None
    relative_sd: float | None = None
    relative_to: str = PRIOR

    def __post_init__(self) -> None:
        if isinstance(self.init, str) and self.init not in INITS:
            raise unknown_name("init (or give weights by name)", self.init, INITS)
        if not isinstance(self.init, (str, Mapping)):
            raise UsageError(f"init is a name or weights by name, not a {type(self.init).__name__}")
        if self.rho is not None and not math.isfinite(self.rho):
            raise UsageError(f"rho must be a number, not {self.rho}; sd = softplus(rho)")
        if self.relative_sd is not None and not (math.isfinite(self.relative_sd) and self.relative_sd > 0):
            raise UsageError(f"relative_sd must be positive, not {self.relative_sd}")
        if self.relative_to not in (PRIOR, INIT):
            raise unknown_name("relative_to", self.relative_to, (PRIOR, INIT))
        if self.relative_to == INIT and (self.relative_sd is None or self.init not in DRAWN):
            raise UsageError(
                f"relative_to '{INIT}' goes with a relative_sd, and with an init that draws the means: "
                f"{', '.join(DRAWN)}; not with relative_sd {self.relative_sd} and init {self._name()}"
            )

    def weights(self, layout: Layout, present: Tensor) -> Tensor:
        """The weights (N,) by name, if they are given, or the module's `present` ones."""
        if isinstance(self.init, str):
            return present
        for name in self.init:
            if name not in layout.names:
                raise unknown_name("Bayesian weight (others: load them into the module first)", name, layout.names)
        return layout.flatten(self.init).detach().to(present)

    def means(self, model: nn.Module, layout: Layout, weights: Tensor, prior: Prior, seed: int) -> Tensor:
        """The means (N,); `weights` (N,) are those that are not drawn."""
        if self.init not in DRAWN:
            return weights
        sd, shape, g = self._drawn_sd(layout, prior), weights.shape, generator(seed, "initial means")
        if self.init == UNIFORM:
            u = 2 * torch.rand(shape, generator=g, dtype=torch.float64) - 1
            drawn = prior.mean + math.sqrt(3) * sd * u.to(weights)
        else:
            drawn = sd * torch.randn(shape, generator=g, dtype=torch.float64).to(weights)
        return torch.where(drawn_places(model, layout).to(weights.device), drawn, weights)

    def sds(self, model: nn.Module, layout: Layout, weights: Tensor, prior: Prior) -> Tensor:
        """The standard deviations (N,); `weights` (N,) say where they are."""
        if self.rho is None and self.relative_to == PRIOR:
            return (DEFAULT_RELATIVE_SD if self.relative_sd is None else self.relative_sd) * prior.sd
        # In double precision, so that the posterior finds the same rho again; not 0, of which there is none.
        rho = KEPT_RHO if self.rho is None else self.rho
        sd = F.softplus(torch.tensor(rho, dtype=torch.float64, device=weights.device))
        sd = sd.clamp_min(torch.finfo(sd.dtype).tiny).expand(len(weights))
        if self.relative_sd is None:
            return sd
        places = drawn_places(model, layout).to(sd.device)
        return torch.where(places, self.relative_sd * self._drawn_sd(layout, prior).double(), sd)

    def _drawn_sd(self, layout: Layout, prior: Prior) -> Tensor:
        assert isinstance(self.init, str)
        return prior.sd if self.init == UNIFORM else sd_of(self.init, layout, prior.sd)

    def _name(self) -> str:
        return f"'{self.init}'" if isinstance(self.init, str) else "by given weights"


def drawn_places(model: nn.Module, layout: Layout) -> Tensor:
    """Which weights (N,) an initialisation draws."""
    norms = (m for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm)))
    kept = {id(p) for norm in norms for p in norm.parameters()}
    wide = {name for name, p in model.named_parameters() if p.dim() >= 2 and id(p) not in kept}
    holders = {_holder(name) for name in wide}
    beside = {n for n in layout.names if "bias" in n.rpartition(".")[2] and _holder(n) in holders}
    return layout.fill(name in wide | beside for name in layout.names).bool()


def _holder(name: str) -> str:
    """Name of the module that holds a parameter."""
    return name.rpartition(".")[0]
