"""IVON as the optimiser of a mean-field network: its curvature is the network's standard deviation.

    q = N(mean, sd^2),    sd^2 = 1 / (ess (h + delta)),    ess = num_data / temperature,    delta = precision / ess

which is the q of optim.ivon for the prior N(centre, 1 / precision), whose steps are taken here by its own `advance`.
The gradients are those of the nll alone (IVON adds the prior by delta): with G = d nll / dw at w = mean + sd eps,
    mean.grad = <G>,    rho.grad = <G eps> sigmoid(rho),    hence <G noise> = rho.grad sd / sigmoid(rho),
where sigmoid(rho) = 1 - exp(-sd). In single precision and for sd <= SMALL, to rounding,
    sd / sigmoid(rho) = 1 + sd / 2 + sd^2 / 12,    rho = log sd + sd / 2 + sd^2 / 24.
Here sd is that of the curvature, which is softplus(rho) to rounding and takes a quarter of its time. Of a large network
all of this is one compiled pass, where there is one (core.kernels), with series that hold for sd <= 1.
h starts where the network's sd is, so that the first draw is from the network as it was given; or at `hess_init`.

Shen et al., Variational learning is effective for large deep networks, 2024 (2402.17641), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from posterity.core import kernels
from posterity.core.errors import UsageError
from posterity.objectives.estimate import PATH, TOTAL
from posterity.optim.ivon import advance, standard_deviation
from posterity.optim.stepping import check_betas, check_not_negative, check_positive, closed
from posterity.posteriors import MeanField, rho_of
from posterity.priors import FlatGaussian
from posterity.training.groups import ParameterGroup
from posterity.training.methods.method import Subject, WholeMethod

BLOCK = 2**17  # elements: half of what other optimisers take, as more operations are made on each
SMALL = 0.1  # the largest sd that the series in the header are exact enough for: what they leave out is 1.4e-7


class Ivon(WholeMethod):
    """IVON: a natural-gradient step for mean and curvature, with the prior in it."""

    brings_prior = True
    owns_sds = True

    @property
    def default_lr(self) -> float:
        """Its optimiser's."""
        rate: float = signature(PosteriorIVON).parameters["lr"].default
        return rate

    def refuse(self, subject: Subject) -> None:
        """It needs a mean-field posterior under a Gaussian prior that stays as it is."""
        super().refuse(subject)
        posterior, prior, settings = subject.net.posterior, subject.prior, subject.settings
        if not isinstance(posterior, MeanField) or not isinstance(prior, FlatGaussian):
            raise UsageError(
                f"ivon trains a mean-field posterior under a Gaussian prior, not {posterior.kind} under {prior.kind}"
            )
        if settings.learn_prior:
            raise UsageError("'ivon' takes its weight decay from the prior once: learn_prior has no meaning for it")
        if settings.gradient in (PATH, TOTAL):
            raise UsageError(
                f"gradient ({settings.gradient!r}) has no effect with optimizer 'ivon', whose steps have the prior in "
                "them: leave it out"
            )

    def groups(self, subject: Subject) -> list[ParameterGroup]:
        """Mean and rho as one group."""
        given = {
            "prior": subject.prior,
            "sizes": subject.net.layout.sizes,
            "names": subject.net.layout.names,
            "ess": subject.num_data / self.temperature(subject),
        }
        return self.whole_groups(subject, PosteriorIVON, lr=subject.settings.lr, given=given)

    def begin(self, groups: Sequence[ParameterGroup]) -> None:
        """The curvature starts where the network's sd is, or the sd where `hess_init` says."""
        optimizer = groups[0].optimizer
        assert isinstance(optimizer, PosteriorIVON)
        optimizer.begin()


class PosteriorIVON(torch.optim.Optimizer):
    """Moves the `mean` and `rho` of a mean-field network, in `params`, from the gradients of the nll.

    `sizes` and `names` are those of the weight tensors, each with one prior scale.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        *,
        prior: FlatGaussian,
        sizes: Sequence[int],
        names: Sequence[str],
        ess: float,
        lr: float = 0.1,
        hess_init: float | None = None,
        beta1: float = 0.9,
        beta2: float = 0.99999,
        rescale_lr: bool = True,
    ) -> None:
        check_not_negative("learning rate", lr)
        check_betas(beta1=beta1, beta2=beta2)
        if hess_init is not None:
            check_positive("hess_init", hess_init)
        self.sizes, self.centre, self.hess_init = list(sizes), prior.centre, hess_init
        self._pieces = [(k, min(BLOCK, n - at)) for k, n in enumerate(self.sizes) for at in range(0, n, BLOCK)]
        scales = zip(prior.precision.split(self.sizes), names, strict=True)
        self.deltas = [_one_scale(precision, name) / ess for precision, name in scales]
        settings = {"ess": ess, "beta1": beta1, "beta2": beta2, "rescale_lr": rescale_lr}
        super().__init__([{"params": list(params)}], {"lr": lr, **settings})

    @torch.no_grad()
    def begin(self) -> None:
        """Make the state of the first step; with `hess_init` this moves `rho`."""
        mean, rho = self.param_groups[0]["params"]
        ess = self.param_groups[0]["ess"]
        if self.hess_init is not None:
            wanted = [torch.full((n,), self.hess_init + d) for n, d in zip(self.sizes, self.deltas, strict=True)]
            rho.copy_(rho_of(standard_deviation(torch.cat(wanted).to(rho), ess)))
        curvature = torch.nn.functional.softplus(rho).square_().mul_(ess).reciprocal_()
        initial = torch.stack([part.mean() for part in curvature.split(self.sizes)])
        self.state[mean] = {"step": 0, "momentum": torch.zeros_like(mean), "curvature": curvature, "initial": initial}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step from the gradients there are."""
        loss = closed(closure)
        group = self.param_groups[0]
        mean, rho = group["params"]
        state = self.state[mean]
        state["step"] += 1
        if self.centre is not None:
            mean.sub_(self.centre)
        shared = {"ess": group["ess"], "beta1": group["beta1"], "beta2": group["beta2"], "t": state["step"]}
        initial = state["initial"].tolist() if group["rescale_lr"] else [1.0] * len(self.sizes)
        vectors = (mean, state["momentum"], state["curvature"], mean.grad, rho.grad, rho)
        fused = kernels.compiled(*vectors) and bool(state["curvature"].amin() * group["ess"] >= kernels.MOST_SD**-2)
        scratch = None if fused else mean.new_empty(3, max(size for _, size in self._pieces))
        for part, *block in self._blocks(*vectors, pieces=list(enumerate(self.sizes)) if fused else self._pieces):
            own = {"lr": group["lr"] * initial[part], "delta": self.deltas[part], **shared}
            if scratch is None:
                kernels.ivon(*block, **own)
            else:
                _move(*block, scratch=scratch[:, : len(block[0])], **own)
        if self.centre is not None:
            mean.add_(self.centre)
        return loss

    def _blocks(self, *vectors: Tensor, pieces: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, ...]]:
        """The number of a weight tensor and corresponding blocks of the vectors, which lie in it."""
        sizes = [size for _, size in pieces]
        parts = (vector.detach().split(sizes) for vector in vectors)
        return zip((number for number, _ in pieces), *parts, strict=True)

    def element_rates(self, group: dict[str, Any], state: dict[str, Any]) -> Tensor:
        """lr times the initial curvature over the present one: what multiplies the average gradient."""
        if not group["rescale_lr"]:
            return torch.div(float(group["lr"]), state["curvature"])
        parts = zip(state["curvature"].split(self.sizes), state["initial"], strict=True)
        return torch.cat([float(group["lr"]) * initial / part for part, initial in parts])


def _move(
    mean: Tensor,
    momentum: Tensor,
    curvature: Tensor,
    grad: Tensor,
    grad_rho: Tensor,
    rho: Tensor,
    *,
    scratch: Tensor,
    ess: float,
    **settings: Any,
) -> None:
    """One step of a block."""
    noise_grad, spare, sd = scratch
    torch.mul(curvature, ess, out=sd).rsqrt_()
    if _is_small(sd):
        torch.addcmul(sd, sd, sd, value=1 / 6, out=noise_grad)
        torch.addcmul(grad_rho, grad_rho, noise_grad, value=0.5, out=noise_grad)
    else:
        torch.mul(grad_rho, sd, out=noise_grad).div_(torch.neg(sd, out=spare).expm1_().neg_())
    advance(mean, momentum, curvature, grad, noise_grad, spare, ess=ess, **settings)
    torch.mul(curvature, ess, out=sd).rsqrt_()
    if _is_small(sd):
        torch.log(sd, out=rho).add_(sd, alpha=0.5).addcmul_(sd, sd, value=1 / 24)
    else:
        rho.copy_(rho_of(sd))


def _is_small(sd: Tensor) -> bool:
    return sd.dtype == torch.float32 and bool(sd.amax() <= SMALL)


def _one_scale(precision: Tensor, name: str) -> float:
    if not len(precision):
        return 1.0
    if not bool((precision == precision[0]).all()):
        raise UsageError(f"ivon needs one prior scale for all of {name}; the prior has several")
    return precision[0].item()
