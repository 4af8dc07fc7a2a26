"""Weights drawn from a mean-field posterior, or those of a point, with the KL's gradient attached, written by hand.

    w = mean + sd eps,   sd = F.softplus(rho),   kl = KL(N(mean, sd^2) || N(prior_mean, prior_sd^2))

For a loss L with G = dL/dw and c = dL/dkl, p = 1 / prior_sd^2:
    dL/dmean = sum_s G_s + c p (mean - prior_mean)
    dL/drho  = (sum_s G_s eps_s + c (p sd - 1 / sd)) sigmoid(rho)

A point has w = mean, and kl = -log prior(mean): the first line above, or for another prior than a Gaussian
    dL/dmean = sum_s G_s - c grad log prior(mean)
of which the last is computed where c is not 0, by autograd. Where it is known beforehand that the KL does not count the
value is not computed either: of a large network that would be a pass over weights that nothing else reads.

The same as autograd gives for `posterior.sample` and `kl_divergence`, at less than half the passes over the
vector, which is what a step of a large dense network spends its time on. The KL's value takes a logarithm of each sd
unless they are small, as they are in large networks; then, with s = sd,
    log s = rho - log((e^s - 1) / s) = rho - s / 2 - s^2 / 24 + s^4 / 2880 - s^6 / 181440 + ...
is sums and scalar products alone, a sixth of the cost. The series ends before s^4, or after it, where what follows, at
most the largest s to the power of 2 or 4 times sum s^2 / 2880 or 181440, is below the sum's rounding; no s is larger
than the root of sum s^2. Of large networks all of this is compiled, where it can be (core.kernels).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.bayesian import BayesianModule
from posterity.core import kernels
from posterity.core.layout import Layout
from posterity.priors import FlatGaussian, Prior
from posterity.priors.gaussian import HALF_LOG_2PI

SERIES = (2880.0, 181440.0)
CONVERGENT = 3.0  # below it a term of the series is less than a fifth of the one before
FEW_WEIGHTS = kernels.MANY  # below this, calls cost more than memory traffic: join the parts' gradients first


class _Draw(torch.autograd.Function):
    """(mean, rho, noise) -> the weight tensors, and the KL.

    Tensors, not one vector: autograd then has no view of it to follow, and their gradients need not be joined.
    """

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, noise: Tensor, prior: FlatGaussian, layout: Layout
    ) -> tuple[Tensor, ...]:
        sd, kl, weights = _spread(mean, rho, prior, layout, noise)
        ctx.save_for_backward(mean, rho, sd, noise, prior.centre)
        ctx.prior, ctx.layout, ctx.spent = prior, layout, False
        return (*layout.views(weights).values(), kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, sd, noise, centre = ctx.saved_tensors
        factor = float(grads[-1])
        flats = [entry.flat(grad) for entry, grad in zip(ctx.layout.entries, grads, strict=False)]
        sizes, precisions = ctx.layout.sizes, ctx.prior.precisions(ctx.layout)
        if len(mean) < FEW_WEIGHTS:
            flats, sizes, precisions = [torch.cat(flats, dim=-1)], [len(mean)], [ctx.prior.precision]
        # In place, as memory traffic is the cost here: the noise is needed for nothing else, unless the graph is kept.
        if ctx.spent:
            raise RuntimeError("a second backward through one weight sample: give the first one retain_graph=True")
        kept = torch.compiler.is_compiling() or torch._C._autograd._get_current_graph_task_keep_graph()
        ctx.spent = not kept
        noise = noise.clone() if kept else noise
        grad_mean, grad_sd = torch.empty_like(mean), noise
        shift = mean if centre is None else mean - centre
        many = noise.dim() == 2
        if many:
            grad_sd = torch.empty_like(mean)
        if not many and kernels.compiled(mean, rho, noise, sd, shift, *precisions, *flats):
            parts = (v.split_with_sizes(sizes) for v in (noise, shift, sd, rho, grad_mean))
            for grad, precision, to_rho, by, s, r, to_mean in zip(flats, precisions, *parts, strict=True):
                kernels.gradient(grad, to_rho, (by, s, r), precision, factor, to_mean)
            return grad_mean, noise, None, None, None
        vectors = (v.split_with_sizes(sizes, dim=-1) for v in (grad_mean, grad_sd, noise, shift, sd))
        for grad, precision, to_mean, to_sd, part_noise, part_shift, part_sd in zip(
            flats, precisions, *vectors, strict=True
        ):
            part_noise.mul_(grad)
            if many:
                torch.sum(part_noise, 0, out=to_sd)
                grad = grad.sum(0)
            _add_kl((grad, to_sd), (part_shift, part_sd), precision, factor, out=(to_mean, to_sd))
        grad_rho = torch.ops.aten.softplus_backward.grad_input(grad_sd, rho, 1, 20, grad_input=grad_sd)
        return grad_mean, grad_rho, None, None, None


class _Point(torch.autograd.Function):
    """mean -> its weight tensors, and the KL."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, prior: Prior, layout: Layout, samples: int, counts: bool) -> tuple[Tensor, ...]:
        ctx.save_for_backward(mean)
        ctx.prior, ctx.layout, ctx.counts = prior, layout, counts
        vector = mean.detach()
        views = layout.views(vector if samples == 1 else vector.expand(samples, -1))
        if not counts:
            return tuple(views.values())
        if isinstance(prior, FlatGaussian):
            squares, _ = _squares(vector if prior.centre is None else vector - prior.centre, prior, layout)
            constant = len(mean) * HALF_LOG_2PI - prior.half_log_precision
            return (*views.values(), mean.new_zeros(()).add_(0.5 * squares + constant))
        with torch.enable_grad():
            at = vector.clone().requires_grad_()
            ctx.energy = at, prior.energy_by_weight(at).sum()
        return (*views.values(), ctx.energy[1].detach().clone())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mean,) = ctx.saved_tensors
        layout, prior, factor = ctx.layout, ctx.prior, float(grads[-1]) if ctx.counts else 0.0
        flats = [entry.flat(grad) for entry, grad in zip(layout.entries, grads, strict=False)]
        flats = [flat if flat.dim() == 1 else flat.sum(0) for flat in flats]
        others = (None,) * 4
        if not factor:
            return torch.cat(flats), *others
        if not isinstance(prior, FlatGaussian):
            at, energy = ctx.energy
            (gradient,) = torch.autograd.grad(energy, at, retain_graph=True)
            return torch.cat(flats).add_(gradient, alpha=factor), *others
        joined = torch.empty_like(mean)
        shift = mean if prior.centre is None else mean - prior.centre
        parts = (v.split_with_sizes(layout.sizes) for v in (shift, joined))
        for grad, precision, at, to in zip(flats, prior.precisions(layout), *parts, strict=True):
            torch.addcmul(grad, at, precision, value=factor, out=to)
        return joined, *others


class _Moments(torch.autograd.Function):
    """(mean, rho) -> means and sds by weight, and the KL: the above with G in means and sds themselves."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, rho: Tensor, prior: FlatGaussian, layout: Layout) -> tuple[Tensor, ...]:
        sd, kl, _ = _spread(mean, rho, prior, layout)
        ctx.save_for_backward(mean, rho, sd, prior.centre)
        ctx.prior, ctx.layout = prior, layout
        parts = (*mean.detach().split_with_sizes(layout.sizes), *sd.split_with_sizes(layout.sizes))
        return (*parts, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, sd, centre = ctx.saved_tensors
        *parts, factor = *grads[:-1], float(grads[-1])
        sizes, precisions = ctx.layout.sizes, ctx.prior.precisions(ctx.layout)
        by_mean, by_sd = parts[: len(sizes)], parts[len(sizes) :]
        if len(mean) < FEW_WEIGHTS:
            by_mean, by_sd, sizes, precisions = (
                [torch.cat(by_mean)],
                [torch.cat(by_sd)],
                [len(mean)],
                [ctx.prior.precision],
            )
        out, given = (torch.empty_like(mean), torch.empty_like(mean)), (mean if centre is None else mean - centre, sd)
        vectors = zip(*(v.split_with_sizes(sizes) for v in (*given, *out)), strict=True)
        for grad, precision, (part_shift, part_sd, *to) in zip(
            zip(by_mean, by_sd, strict=True), precisions, vectors, strict=True
        ):
            _add_kl(grad, (part_shift, part_sd), precision, factor, out=to)
        return out[0], torch.ops.aten.softplus_backward.grad_input(out[1], rho, 1, 20, grad_input=out[1]), None, None


def _add_kl(
    grad: tuple[Tensor, Tensor],
    at: tuple[Tensor, Tensor],
    precision: Tensor,
    factor: float,
    *,
    out: Sequence[Tensor],
) -> None:
    """The gradient in (mean, sd) plus `factor` times the KL's `at` (mean - prior_mean, sd)."""
    (shift, sd), (to_mean, to_sd) = at, out
    if not factor:  # also because an sd that has underflowed to 0 must not make 0 / 0
        to_mean.copy_(grad[0])
        if to_sd is not grad[1]:
            to_sd.copy_(grad[1])
        return
    torch.addcmul(grad[0], shift, precision, value=factor, out=to_mean)
    torch.addcmul(grad[1], sd, precision, value=factor, out=to_sd)
    to_sd.addcdiv_(sd.new_ones(1), sd, value=-factor)


def _spread(
    mean: Tensor, rho: Tensor, prior: FlatGaussian, layout: Layout, noise: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """sd = softplus(rho), the KL, and mean + sd noise; without noise the means."""
    shift = mean if prior.centre is None else mean - prior.centre
    if noise is None or noise.dim() == 1:
        given = (mean, shift, rho) if noise is None else (mean, shift, rho, noise)
        if kernels.compiled(*given) and (found := _compiled_spread(mean, shift, rho, prior, layout, noise)):
            return found
    sd = F.softplus(rho)
    spread, squares = _squares(sd, prior, layout)
    logs = sum_log_sd(rho, sd, squares)
    kl = 0.5 * (_squares(shift, prior, layout)[0] + spread - len(mean)) - logs - prior.half_log_precision
    weights = mean if noise is None else torch.addcmul(mean, sd, noise)
    return sd, mean.new_zeros(()).add_(kl), weights


def _compiled_spread(
    mean: Tensor, shift: Tensor, rho: Tensor, prior: FlatGaussian, layout: Layout, noise: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The same in one pass, part by part, unless a rho is too large or too small for it."""
    precisions = prior.precisions(layout)
    if any(len(precision) > 1 for precision in precisions):
        return None  # one for each weight
    sd = torch.empty_like(rho)
    weights = mean if noise is None else torch.empty_like(mean)
    noises = [None] * len(precisions) if noise is None else noise.split_with_sizes(layout.sizes)
    vectors = (v.split_with_sizes(layout.sizes) for v in (mean, shift, rho, sd, weights))
    kl = -0.5 * len(mean) - prior.half_log_precision
    for precision, part_noise, (part_mean, part_shift, part_rho, to_sd, to_weights) in zip(
        precisions, noises, zip(*vectors, strict=True), strict=True
    ):
        sums = kernels.draw(part_mean, part_shift, part_rho, part_noise, to_sd, to_weights)
        if sums is None:
            return None
        if len(precision):  # a part may be empty
            kl += 0.5 * precision.item() * (sums.squared_shift + sums.squared_sd) - sums.log_sd
    return sd, mean.new_zeros(()).add_(kl), weights


def _squares(vector: Tensor, prior: FlatGaussian, layout: Layout) -> tuple[Any, Any]:
    """sum p vector^2, and sum vector^2."""
    if len(vector) < FEW_WEIGHTS:
        return _number(torch.dot(vector * prior.precision, vector)), _number(torch.dot(vector, vector))
    parts = list(zip(prior.precisions(layout), vector.split_with_sizes(layout.sizes), strict=True))
    plain = [_number(torch.dot(v, v)) for _, v in parts]
    by_part = zip(parts, plain, strict=True)
    return sum(s * _number(p) if len(p) == 1 else _number(torch.dot(v * p, v)) for (p, v), s in by_part), sum(plain)


def sum_log_sd(rho: Tensor, sd: Tensor, squares: float | None = None) -> float | Tensor:
    """sum log sd for sd = softplus(rho), whose sum of squares may be known, see the header."""
    if sd.device.type != "cpu":  # where the logarithms cost less than to wait for what follows
        return sd.log().sum()
    squares = torch.dot(sd, sd).item() if squares is None else squares
    total, found = sd.sum().item(), rho.sum().item()
    rounding = torch.finfo(sd.dtype).eps * abs(found) / 8
    largest = math.sqrt(squares)
    if not (largest < CONVERGENT and largest**2 * squares / SERIES[0] <= rounding):
        largest = sd.amax().item()
    if not (largest < CONVERGENT and largest**4 * squares / SERIES[1] <= rounding):
        return sd.log().sum().item()
    found -= 0.5 * total + squares / 24
    if largest**2 * squares / SERIES[0] <= rounding:
        return found
    powers = sd.square()
    return found + torch.dot(powers, powers).item() / SERIES[0]


def _number(scalar: Tensor) -> float | Tensor:
    """A Python number, whose arithmetic is quick and in double precision, where that need not be waited for."""
    return scalar.item() if scalar.device.type == "cpu" else scalar.squeeze()


def mean_field_moments(net: BayesianModule) -> tuple[Sequence[Tensor], Sequence[Tensor], Tensor]:
    """Means and standard deviations, flat parts (size,) by weight, and their KL."""
    count = len(net.layout.sizes)
    inputs = (net.posterior.mean, net.posterior.rho, net.prior, net.layout)
    *parts, kl = _Moments.apply(*inputs)  # type: ignore[no-untyped-call]
    return parts[:count], parts[count:], kl


def draw_mean_field(net: BayesianModule, samples: int) -> tuple[dict[str, Tensor], Tensor]:
    """Weights by name, (S, *shape) for more than one sample, and their KL."""
    noise = net.noise(None if samples == 1 else samples)
    inputs = (net.posterior.mean, net.posterior.rho, noise, net.prior, net.layout)
    *tensors, kl = _Draw.apply(*inputs)  # type: ignore[no-untyped-call]
    return dict(zip(net.layout.names, tensors, strict=True)), kl


def draw_point(net: BayesianModule, samples: int, *, counts: bool = True) -> tuple[dict[str, Tensor], Tensor | None]:
    """The same for a point, whose samples are all equal; without the KL unless it `counts`."""
    inputs = (net.posterior.mean, net.prior, net.layout, samples, counts)
    tensors = _Point.apply(*inputs)  # type: ignore[no-untyped-call]
    return dict(zip(net.layout.names, tensors, strict=False)), tensors[-1] if counts else None
