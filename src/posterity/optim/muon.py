"""Muon: each matrix of weights moves along its average gradient with all singular values made alike.

    M <- b1 M + (1 - b1) G                                                            [1]
    U = b1 M + (1 - b1) G                              Nesterov's look ahead
    W <- W - lr sqrt(max(1, rows / columns)) polar(U),      polar(U) = (U U')^(-1/2) U

A matrix is a parameter of two or more axes, (first axis, all others), of a grouped convolution one for each group. What
is none (biases, scales of norms, look-up tables, one row or column), and a matrix whose shorter side is longer than
`most_side`, whose polar factor would take longer than the network's own pass, moves by AdaBayes-FP (optim.adabayes)
with M and lr as they are.

In a layer whose inputs are correlated, as neighbouring pixels are, a few directions have nearly all of the gradient,
and rates by element cannot tell them from the others; here each direction moves by the same length. The polar factor is
that of five Newton-Schulz steps,
    X <- a X + b (X X') X + c (X X')^2 X,    X = U / |U|  at first,
which leave singular values that begin above 0.01 between 0.68 and 1.14; that does as well as the exact one [1].

Limits: a matrix of one row is a step of length lr along its gradient; a gradient of zero moves nothing; b1 = 0 is the
step of steepest descent for the spectral norm; without matrices it is AdaBayes-FP.

Of a flat parameter that holds many tensors `parts` has their shapes, one after the other: (groups, rows, columns) of a
matrix, (size,) of what is none. It has such a list for each parameter, an empty one where its own shape says it.

[1] Jordan, Jin, Boza, You, Cesista, Newhouse, Bernstein, Muon: an optimizer for hidden layers in neural networks, 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from posterity.core import kernels
from posterity.core.errors import UsageError
from posterity.optim.adabayes import AdaBayesFP
from posterity.optim.stepping import BLOCK, BlockOptimizer, Group, check_positive, walk

Part = tuple[int, ...]

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c
ITERATIONS = 5
MOST_SIDE = 128
FAINT = 1e-15  # the length of a gradient whose squares may underflow


class Muon(AdaBayesFP):
    """Matrices by their polar factor, the rest by AdaBayes-FP."""

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float = 0.02,
        lr_sgd: float = 0.5,
        batch_size: int | None = None,
        reduction: str = "mean",
        betas: tuple[float, float] = (0.95, 0.999),
        weight_decay: float = 0.0,
        maximize: bool = False,
        most_side: int = MOST_SIDE,
        parts: Sequence[Sequence[Part]] = (),
    ) -> None:
        settings: Group = {"lr": lr, "lr_sgd": lr_sgd, "batch_size": batch_size, "reduction": reduction, "betas": betas}
        settings |= {"weight_decay": weight_decay, "maximize": maximize, "most_side": most_side, "parts": list(parts)}
        BlockOptimizer.__init__(self, params, settings)

    def check(self, group: Group) -> None:
        """The longest of the shorter sides positive, the rest as of AdaBayes."""
        super().check(group)
        check_positive("most_side", group["most_side"])

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with settings of their own, and refuse parts that do not fit them."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            _pieces(p, self.param_groups[-1])

    def move(self, p: Tensor, group: Group) -> None:
        """Matrix by matrix, and what lies between them at once."""
        state = self.state[p]
        assert p.grad is not None
        kernel, between = self.kernel(group, state["step"]), []
        tensors = (p.detach(), p.grad, state["m"], state["v"])
        for part, (w, g, m, v) in _split(p, group, tensors):
            if part is not None:
                self._turn(part, w, g, m, group)
            elif w.numel() <= BLOCK and g.dtype == m.dtype and not group["maximize"]:
                between.append((w, g, m, v))
            else:
                walk(kernel, w, g, m, v, maximize=group["maximize"])
        if between:
            self.filter(group, state["step"])(*map(list, zip(*between, strict=True)))

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of <g>: those of AdaBayes-FP; of a matrix the length of its step over that of its average gradient."""
        rates = super().element_rates(group, state)
        p = next(p for p in group["params"] if self.state[p] is state)
        correction = 1 - group["betas"][0] ** state["step"]
        for part, (rate, m) in _split(p, group, (rates, state["m"])):
            if part is not None:
                length = float(m.norm())
                largest = torch.finfo(torch.float32).max
                rate.fill_(min(_length(group, part) * correction / length, largest) if length else 0.0)
        return rates

    def _turn(self, part: Part, w: Tensor, g: Tensor, m: Tensor, group: Group) -> None:
        """The step of one matrix."""
        beta, decay = group["betas"][0], self._decay(group)
        share = -self._share(group) if group["maximize"] else self._share(group)
        g = g.to(m.dtype)
        g = g if share == 1 else g * share
        m.lerp_(g, 1 - beta)
        if decay:
            w.mul_(1 - decay)
        along = polar(torch.lerp(g, m, beta).reshape(part))
        w.add_(along.reshape(w.shape).to(w.dtype), alpha=-_rate(group, part))


def _split(p: Tensor, group: Group, tensors: Sequence[Tensor]) -> Iterator[tuple[Part | None, Sequence[Tensor]]]:
    """Corresponding pieces of the parameter's `tensors`: each matrix with its shape, and the runs between them."""
    matrices, sizes = zip(*_pieces(p, group), strict=True)
    if len(sizes) == 1:
        yield matrices[0], tensors
    else:
        yield from zip(matrices, zip(*(tensor.split_with_sizes(sizes) for tensor in tensors), strict=True), strict=True)


def _pieces(p: Tensor, group: Group) -> list[tuple[Part | None, int]]:
    """The matrices in the parameter with their sizes, and None with the size of each run of others between them."""
    given = next((parts for q, parts in zip(group["params"], group["parts"], strict=False) if q is p), ())
    return _joined(tuple(p.shape), tuple(map(tuple, given)), group["most_side"])


@lru_cache(maxsize=1024)
def _joined(shape: Part, given: tuple[Part, ...], most_side: int) -> list[tuple[Part | None, int]]:
    own = (1, shape[0], math.prod(shape[1:])) if len(shape) > 1 else (math.prod(shape),)
    if given and sum(map(math.prod, given)) != math.prod(shape):
        raise UsageError(f"the parts of a parameter of shape {shape} do not add up to it: {list(given)}")
    joined: list[tuple[Part | None, int]] = []
    for part in given or (own,):
        size = math.prod(part)
        if len(part) == 3 and 1 < min(part[1:]) <= most_side:
            joined.append((part, size))
        elif joined and joined[-1][0] is None:
            joined[-1] = (None, joined[-1][1] + size)
        else:
            joined.append((None, size))
    return joined


def polar(matrices: Tensor) -> Tensor:
    """(U U')^(-1/2) U of each of `matrices` (..., rows, columns), by Newton-Schulz; zero of a zero."""
    if kernels.compiled_polar(matrices):
        return kernels.polar(matrices, NEWTON_SCHULZ, ITERATIONS)
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    tiny = torch.finfo(x.dtype).tiny
    norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)
    if not norm.amin().item() > FAINT:  # the squares in it underflow
        x = x / x.abs().amax(dim=(-2, -1), keepdim=True).clamp_min(tiny)
        norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)
    x = x / norm.clamp_min(tiny)
    one = x.shape[:-2].numel() == 1  # calls for one matrix take less time than those for a batch
    x = x.reshape(x.shape[-2:]) if one else x
    multiply, add = (torch.mm, torch.addmm) if one else (torch.bmm, torch.baddbmm)
    a, b, c = NEWTON_SCHULZ
    # X = P X0 all along, and all P and Gram matrices commute: what is multiplied has the shorter side alone.
    gram, product = multiply(x, x.mT), None
    for left in reversed(range(ITERATIONS)):
        factor = add(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        product = factor if product is None else multiply(product, factor)
        gram = multiply(multiply(factor, gram), factor) if left else gram
    assert product is not None
    found = multiply(product, x)
    return (found.mT if tall else found).reshape(matrices.shape)


def _rate(group: Group, part: Part) -> float:
    """lr sqrt(max(1, rows / columns))."""
    return float(group["lr"]) * math.sqrt(max(1.0, part[1] / part[2]))


def _length(group: Group, part: Part) -> float:
    """The Euclidean length of a step whose singular values are all one."""
    return _rate(group, part) * math.sqrt(part[0] * min(part[1:]))
