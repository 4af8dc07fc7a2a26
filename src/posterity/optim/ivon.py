"""IVON: variational inference at the price of Adam; the optimiser is the posterior.

    q = N(m, 1 / (ess (h + delta)))
    w = m + noise,   noise = eps / sqrt(ess (h + delta)),   g = gradient of the mean loss at w
    h_hat = ess (h + delta) g noise                          g and g noise averaged over the samples
    h    <- b2 h + (1 - b2) h_hat + (1 - b2)^2 (h - h_hat)^2 / (2 (h + delta))
    m    <- m - lr (<g> + delta m) / (h + delta)

What is kept is curvature = h + delta. It stays positive: the new one is the old times 1 + a + a^2/2,
a = (1 - b2)(h_hat - h)/(h + delta).

<g> is Adam's bias-corrected average. `ess` is the number of data (over the temperature), delta the weight decay:
the prior is N(0, 1/(ess delta)). With `rescale_lr` (the paper's option) lr is multiplied with hess_init + delta, so
that the first steps are those of SGD with rate lr.

    with optimizer.sampled_weights():      # once, or several times for several samples
        loss(model(x), y).backward()
    optimizer.step()                       # or optimizer.step(closure), which samples by itself

Limits: as ess grows the noise goes to 0; as b2 -> 1 h stays hess_init, which is SGD with momentum and weight decay.

Shen et al., Variational learning is effective for large deep networks, 2024 (2402.17641), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.optim.stepping import (
    BlockOptimizer,
    Group,
    Kernel,
    blocks,
    check_betas,
    check_not_negative,
    check_positive,
    walk,
    wide,
)


class IVON(BlockOptimizer):
    """Improved variational online Newton: the parameters are means, `posterior()` has their standard deviations."""

    _sampling = False

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float = 0.1,
        ess: float,
        hess_init: float = 0.1,
        beta1: float = 0.9,
        beta2: float = 0.99999,
        weight_decay: float = 1e-4,
        rescale_lr: bool = True,
        seed: int = 0,
    ) -> None:
        settings = {"lr": lr, "ess": ess, "hess_init": hess_init, "beta1": beta1, "beta2": beta2}
        super().__init__(params, {**settings, "weight_decay": weight_decay, "rescale_lr": rescale_lr})
        self.shared = {"samples": 0, "noise": NoiseSource(seed).state()}

    def check(self, group: Group) -> None:
        """ess and hess_init positive, betas in [0, 1)."""
        check_positive("ess", group["ess"])
        check_positive("hess_init", group["hess_init"])
        check_betas(beta1=group["beta1"], beta2=group["beta2"])
        check_not_negative("weight decay", group["weight_decay"])

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """The average gradient and h + delta."""
        curvature = torch.full_like(like, group["hess_init"] + group["weight_decay"])
        return {"momentum": torch.zeros_like(like), "curvature": curvature}

    @contextmanager
    def sampled_weights(self) -> Iterator[None]:
        """Put a sample in the place of the means; at the end put them back and collect the gradients, if any.

        Gradients from before are dropped: those at the end are the sample's. Clip them inside.
        """
        if self._sampling:
            raise UsageError("sampled_weights() is active already: leave it before drawing another sample")
        sampled = [(p, group) for group in self.param_groups for p in group["params"] if p.requires_grad]
        means = self._sample(sampled)
        self._sampling = True
        finished = False
        try:
            yield
            for p, _ in sampled:
                if p.grad is not None:
                    self.check_gradient(p)
            finished = True
        finally:
            self._sampling = False
            self._put_back(sampled, means, collect=finished)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update h and the means from the samples since the last step; a `closure` is called at a new sample."""
        loss = None
        if closure is not None:
            with torch.enable_grad(), self.sampled_weights():
                loss = closure()
        samples = self.shared["samples"]
        if not samples:
            raise UsageError(
                "IVON has no sampled gradients: call backward() inside 'with optimizer.sampled_weights():', "
                "or give step() a closure"
            )
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "grad" in state:
                    state["step"] += 1
                    grad, noise_grad = state.pop("grad"), state.pop("noise_grad")
                    if samples > 1:
                        grad, noise_grad = grad / samples, noise_grad / samples
                    walk(self.kernel(group, state["step"]), p, grad, state["momentum"], state["curvature"], noise_grad)
        self.shared = {**self.shared, "samples": 0}
        return loss

    def kernel(self, group: Group, t: int) -> Kernel:
        """`advance` with the group's settings."""
        settings = {
            "lr": rescaled_rate(group),
            "ess": group["ess"],
            "delta": group["weight_decay"],
            "beta1": group["beta1"],
            "beta2": group["beta2"],
            "t": t,
        }

        def move(
            w: Tensor, g: Tensor, momentum: Tensor, curvature: Tensor, noise_grad: Tensor, scratch: Tensor
        ) -> None:
            advance(w, momentum, curvature, g, noise_grad, scratch, **settings)

        return move

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of <g> + delta m: the rescaled rate over h + delta."""
        curvature: Tensor = state["curvature"]
        return curvature.reciprocal().mul_(rescaled_rate(group))

    def posterior(self) -> tuple[list[Tensor], list[Tensor]]:
        """Means and standard deviations, each a list of flat vectors, one a parameter, in the order of the groups."""
        means, sds = [], []
        for group in self.param_groups:
            for p in group["params"]:
                self.begin(p, group)
                means.append(p.detach().flatten().clone())
                sds.append(standard_deviation(self.state[p]["curvature"], group["ess"]).flatten())
        return means, sds

    @torch.no_grad()
    def _sample(self, sampled: list[tuple[Tensor, Group]]) -> list[Tensor]:
        """Move the parameters to a sample; returns copies of the means."""
        source = NoiseSource(0)
        source.restore(self.shared["noise"])
        means = []
        for p, group in sampled:
            self.begin(p, group)
            p.grad = None
            means.append(p.detach().to(wide(p.dtype), copy=True))
            curvature = self.state[p]["curvature"]
            noise = source.normal((p.numel(),), curvature).view(p.shape)
            for w, mean, block, eps in blocks(p.detach(), means[-1], curvature, noise):
                w.copy_(torch.addcmul(mean, standard_deviation(block, group["ess"]), eps))
        self.shared = {**self.shared, "noise": source.state()}
        return means

    @torch.no_grad()
    def _put_back(self, sampled: list[tuple[Tensor, Group]], means: list[Tensor], *, collect: bool) -> None:
        """Restore the means and, to `collect`, add the sample's gradients and their products with its noise."""
        found = False
        for (p, _), mean in zip(sampled, means, strict=True):
            if not collect or p.grad is None:
                p.copy_(mean)
                continue
            found = True
            grad, product = p.grad.to(mean.dtype), mean  # the copy of the mean, not needed any more, takes the product
            for w, old, g in blocks(p.detach(), mean, grad):
                noise = w.to(old.dtype) - old
                w.copy_(old)
                torch.mul(noise, g, out=old)
            state = self.state[p]
            if "grad" in state:
                grad, product = grad + state["grad"], product.add_(state["noise_grad"])
            state.update(grad=grad, noise_grad=product)  # sums over the samples
        torch.autograd.graph.increment_version([p for p, _ in sampled])  # a graph built on the sample is void now
        if found:
            self.shared = {**self.shared, "samples": self.shared["samples"] + 1}


def advance(
    mean: Tensor,
    momentum: Tensor,
    curvature: Tensor,
    grad: Tensor,
    noise_grad: Tensor,
    scratch: Tensor | None = None,
    *,
    lr: float,
    ess: float,
    delta: float,
    beta1: float,
    beta2: float,
    t: int,
) -> None:
    """One update of `mean`, `momentum` and `curvature` (h + delta) in place, of any shape; overwrites `noise_grad`.

    `grad` is the gradient at mean + noise, `noise_grad` grad * noise, both averaged over the samples of the step;
    `lr` is what multiplies the step, already rescaled.
    """
    excess = torch.addcmul(curvature, noise_grad, curvature, value=-ess, out=noise_grad).sub_(delta)  # h - h_hat
    relative = torch.div(excess, curvature, out=scratch)
    curvature.add_(excess, alpha=beta2 - 1).addcmul_(excess, relative, value=0.5 * (1 - beta2) ** 2)
    momentum.lerp_(grad, 1 - beta1)
    correction = 1 - beta1**t
    descent = torch.add(momentum, mean, alpha=delta * correction, out=excess)
    mean.addcdiv_(descent, curvature, value=-lr / correction)


def rescaled_rate(group: Group) -> float:
    """What multiplies the step: lr, with `rescale_lr` times hess_init + delta."""
    lr = float(group["lr"])
    return lr * (group["hess_init"] + group["weight_decay"]) if group["rescale_lr"] else lr


def standard_deviation(curvature: Tensor, ess: float) -> Tensor:
    """sd of each weight under q, from h + delta."""
    return torch.mul(curvature, ess).rsqrt_()
