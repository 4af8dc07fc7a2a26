"""The per-datum negative ELBO.

    negative_elbo = nll + temperature * kl_weight * kl / num_data

    nll        mean over the batch and the weight samples of -log P(y | x, w)
    kl         KL(q || prior) summed over all weights
    kl_weight  M pi_i, the batch's share of the epoch's KL times the number of batches (objectives.weighting)

Its expectation does not depend on the batch size. Limits: temperature 0 is maximum expected likelihood;
a point posterior with temperature 1 is MAP.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.inputs import Inputs
from posterity.likelihoods import Likelihood
from posterity.objectives.baseline import MovingBaseline
from posterity.objectives.estimate import estimate
from posterity.objectives.pairs import kl_by_weight, kl_divergence


class Loss(Tensor):
    """The negative ELBO, a tensor of no dimensions that also says what it is made of.

    What is computed from it is a plain tensor. `nll` and `kl` are differentiable; with a Monte Carlo gradient (total,
    path, score) the KL is log q(w) - log prior(w), averaged over the drawn weights; with analytic ones it is exact. Its
    shares by layer are computed when they are first read, and so is a KL that was left out: that must be before the
    weights change, which a few of them tell.
    """

    nll: Tensor
    temperature: float
    kl_weight: float
    num_data: int
    outputs: Tensor
    net: BayesianModule
    weights: Tensor | None
    fingerprint: list[Tensor]

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def of(
        nll: Tensor,
        kl: Tensor | None,
        *,
        temperature: float,
        kl_weight: float,
        num_data: int,
        outputs: Tensor,
        net: BayesianModule,
        weights: Tensor | None,
    ) -> Loss:
        """The loss of these parts; `weights` (S, N) are those that a Monte Carlo KL is of."""
        factor = temperature * kl_weight / num_data
        # A KL that is not finite (an sd of 0) must not make 0 * inf.
        loss = (nll if kl is None or not factor else torch.add(nll, kl, alpha=factor)).as_subclass(Loss)
        loss.nll, loss.outputs = nll, outputs
        if kl is not None:
            loss.kl = kl
        loss.temperature, loss.kl_weight, loss.num_data = temperature, kl_weight, num_data
        loss.net, loss.weights, loss.fingerprint = net, weights, _fingerprint(net)
        return loss

    def replaced(self, *, nll: Tensor, kl: Tensor | None, outputs: Tensor) -> Loss:
        """The same with other numbers: those of all ranks, say. A KL that was left out stays out."""
        return Loss.of(
            nll,
            kl,
            temperature=self.temperature,
            kl_weight=self.kl_weight,
            num_data=self.num_data,
            outputs=outputs,
            net=self.net,
            weights=self.weights,
        )

    @property
    def known_kl(self) -> Tensor | None:
        """The KL, unless it was left out and nobody has read it."""
        return self.__dict__.get("kl")

    def __repr__(self) -> str:  # type: ignore[override]
        known = self.known_kl is not None or not self._moved()
        kl = f"kl={self.kl.item():.6g}, " if known else ""
        parts = f"nll={self.nll.item():.6g}, {kl}temperature={self.temperature:g}"
        return f"Loss({self.item():.6g}, {parts}, num_data={self.num_data})"

    def __float__(self) -> float:
        return self.item()  # which, unlike PyTorch's own, does not warn of a gradient

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulate the gradient, as for any tensor."""
        super().backward(gradient, retain_graph, create_graph, inputs)  # type: ignore[no-untyped-call]

    @property
    def total(self) -> Tensor:
        """nll + temperature * kl_weight * kl / num_data: the same as a plain tensor."""
        return self.as_subclass(Tensor)

    @property
    def kl_factor(self) -> float:
        """What the KL is multiplied with."""
        return self.temperature * self.kl_weight / self.num_data

    @cached_property
    def kl(self) -> Tensor:
        """KL(q || prior), in nats."""
        if self._moved():
            raise UsageError(
                "the KL of a point at temperature 0 is no part of its training's loss: it is computed when it is first "
                "read, which must be before the optimiser's step changes the weights"
            )
        with torch.enable_grad():
            return kl_divergence(self.net.posterior, self.net.prior)

    def _moved(self) -> bool:
        pairs = zip(_fingerprint(self.net), self.fingerprint, strict=True)
        return not all(torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True) for a, b in pairs)

    @cached_property
    def kl_by_weight(self) -> Tensor:
        """Each weight's share (N,) of the KL, detached."""
        if self._moved():
            raise UsageError(
                "the shares of a loss's KL must be read before the optimiser's step changes the weights: read "
                "kl_by_layer before, or kl, their sum, at any time"
            )
        with torch.no_grad():
            if self.weights is None:
                return kl_by_weight(self.net.posterior, self.net.prior)
            by_weight = self.net.posterior.log_density_by_weight(self.weights)
            return (by_weight - self.net.prior.log_density_by_weight(self.weights)).mean(0)

    @cached_property
    def kl_by_layer(self) -> dict[str, Tensor]:
        """The KL of each layer."""
        return self.net.layout.sum_by_layer(self.kl_by_weight)


def negative_elbo(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Inputs,
    y: Tensor,
    *,
    num_data: int,
    weight: Tensor | None = None,
    samples: int = 1,
    temperature: float = 1.0,
    kl_weight: float = 1.0,
    estimator: str = "sample",
    gradient: str | None = None,
    baseline: str | MovingBaseline | None = None,
    with_kl: bool = True,
) -> Loss:
    """The loss of one batch; `num_data` is the size of the whole training set.

    A tuple `x` becomes the network's positional arguments, a dict its keywords. `weight` (n,) multiplies each datum's
    log probability: 2 counts it twice. `estimator` is how the pass is made random: "sample", "local" or "flipout"
    (posterity.estimators). `gradient` is how the KL enters: "analytic", "total", "path" or "score", by default the
    first that q and prior have. `baseline`, for the score, is "leave_one_out" or a `MovingBaseline` that is kept from
    call to call (objectives.estimate). Without `with_kl` a point's KL that does not count, at temperature 0, is left
    out until it is read: a pass over the weights less.
    """
    if not isinstance(net, BayesianModule):
        raise _not_bayesian(net)
    if num_data < 1:
        raise UsageError(f"num_data is the size of the training set, not {num_data}")
    if not (math.isfinite(temperature) and temperature >= 0):
        raise UsageError(f"the temperature must be a number of at least 0, not {temperature}")
    if samples < 1:
        raise UsageError(f"the number of weight samples must be at least 1, not {samples}")
    e = estimate(
        net,
        likelihood,
        x,
        y,
        weight=weight,
        samples=samples,
        estimator=estimator,
        gradient=gradient,
        baseline=baseline,
        counts=with_kl or temperature * kl_weight != 0,
    )
    return Loss.of(
        e.nll,
        e.kl,
        temperature=temperature,
        kl_weight=kl_weight,
        num_data=num_data,
        outputs=e.outputs,
        net=net,
        weights=e.weights,
    )


def _not_bayesian(net: object) -> UsageError:
    kind = type(net).__name__
    inside = getattr(net, "module", None) or getattr(net, "_orig_mod", None)
    if not isinstance(inside, BayesianModule):
        return UsageError(f"negative_elbo is of a Bayesian network; make one with bayesian({kind}(...))")
    return UsageError(
        f"negative_elbo draws the weights itself and does not go through a {kind} around the network. To train on "
        "several processes, call fit within process_group, or wrap a module whose forward returns negative_elbo of the "
        "network inside it; to compile, give bayesian a compiled module: bayesian(torch.compile(model))"
    )


def _fingerprint(net: BayesianModule) -> list[Tensor]:
    # A few values of each parameter: fused optimisers do not raise autograd's version counter.
    return [p.detach().flatten()[:: max(1, p.numel() // 8)].clone() for p in net.posterior.parameters()]
