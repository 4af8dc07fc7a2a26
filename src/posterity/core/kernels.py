"""Passes over the vectors of a large network that are compiled (kernels.c), one in place of several of PyTorch's.

    normal      noise = sqrt(2) erfinv(u)                                            (core.randomness)
    draw        sd = softplus(rho), w = mean + sd noise, and the sums of a KL        (objectives.draw)
    gradient    G + c p shift  and  (G noise + c (p sd - 1 / sd)) sigmoid(rho)       (objectives.draw)
    ivon        a step of mean, momentum, curvature and rho                          (training.methods.ivon)
    polar       the polar factor of a matrix, by Newton-Schulz                       (optim.muon)

They are there if a C compiler was when the package was installed (gcc, on Linux), and serve long vectors of single
precision on the CPU, and matrices whose shorter side is at most SIDE. Elsewhere their callers do the same by PyTorch's
functions; the two agree to rounding. Shorter vectors, for which calls cost more than memory traffic, are PyTorch's
everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.nn import Parameter

VERSION = 3  # of kernels.c

try:
    from posterity.core import _kernels
except ImportError:
    _kernels = None  # type: ignore[assignment]
if getattr(_kernels, "VERSION", None) != VERSION:  # an editable install keeps what was compiled for an older checkout
    _kernels = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import numpy as np

MANY = 2**17  # weights
SIDE = 128  # of matrices that stay in the cache: longer ones are multiplied faster by PyTorch
SHARE = 2**15  # elements that are worth a thread
BOUND = 80.0  # of |rho| for `draw`: beyond, exponentials underflow
MOST_SD = 0.7  # for `ivon`, whose series hold up to 1: a step multiplies an sd with at most sqrt(2)


def compiled(*vectors: Tensor) -> bool:
    """Whether there are compiled passes for vectors such as these."""
    return vectors[0].numel() >= MANY and _can_be_read(*vectors)


def compiled_polar(matrices: Tensor) -> bool:
    """Whether there is a compiled way to the polar factors of `matrices` (..., rows, columns)."""
    return matrices.numel() > 0 and min(matrices.shape[-2:]) <= SIDE and _can_be_read(matrices)


def _can_be_read(*tensors: Tensor) -> bool:
    return (
        _kernels is not None
        and not torch.compiler.is_compiling()
        and all(v.dtype == torch.float32 and v.device.type == "cpu" and v.is_contiguous() for v in tensors)
        and all(map(_has_memory, tensors))
    )


def _has_memory(v: Tensor) -> bool:
    """Not one that stands for another in a transformation of torch.func, or in a pass that is only traced."""
    return type(v) in (Tensor, Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(v)


def normal(bits: np.random.SFC64, out: Tensor) -> None:
    """Fill the vector `out` from the generator's next words."""
    with bits.lock:
        _kernels.normal(int(bits.ctypes.state_address), out.data_ptr(), *_size(out))


class Sums(NamedTuple):
    """What a Gaussian's KL is made of: sums over weights."""

    log_sd: float
    squared_sd: float
    squared_shift: float


def draw(mean: Tensor, shift: Tensor, rho: Tensor, noise: Tensor | None, sd: Tensor, weights: Tensor) -> Sums | None:
    """Into `sd` softplus(rho), into `weights` mean + sd noise; the sums of log sd, sd^2 and shift^2.

    Without noise `weights` stays as it is. None where a rho is beyond BOUND, or NaN, and all of it is void.
    """
    log_sd, squared_sd, squared_shift, beyond = _kernels.draw(
        mean.data_ptr(),
        shift.data_ptr(),
        rho.data_ptr(),
        0 if noise is None else noise.data_ptr(),
        sd.data_ptr(),
        weights.data_ptr(),
        BOUND,
        *_size(rho),
    )
    return None if beyond else Sums(log_sd, squared_sd, squared_shift)


def gradient(
    grad: Tensor, noise: Tensor, at: tuple[Tensor, Tensor, Tensor], precision: Tensor, factor: float, to_mean: Tensor
) -> None:
    """The gradient in the means into `to_mean`, the one in rho over the noise, `at` (mean - prior_mean, sd, rho).

    `precision` has an element for each weight or one for all.
    """
    shift, sd, rho = at
    _kernels.gradient(
        grad.data_ptr(),
        noise.data_ptr(),
        shift.data_ptr(),
        sd.data_ptr(),
        rho.data_ptr(),
        precision.data_ptr(),
        precision.numel() > 1,
        factor,
        to_mean.data_ptr(),
        *_size(grad),
    )
    increment_version(noise)  # a graph that keeps it is void now


def ivon(
    mean: Tensor,
    momentum: Tensor,
    curvature: Tensor,
    grad: Tensor,
    grad_rho: Tensor,
    rho: Tensor,
    *,
    lr: float,
    ess: float,
    delta: float,
    beta1: float,
    beta2: float,
    t: int,
) -> None:
    """One step in place from the gradients in mean and rho, for sds of at most MOST_SD."""
    _kernels.ivon(
        mean.data_ptr(),
        momentum.data_ptr(),
        curvature.data_ptr(),
        grad.data_ptr(),
        grad_rho.data_ptr(),
        rho.data_ptr(),
        lr,
        ess,
        delta,
        1 - beta1,
        1 - beta2,
        1 - beta1**t,
        *_size(mean),
    )
    increment_version((mean, momentum, curvature, rho))  # a graph built on them is void now


def polar(matrices: Tensor, coefficients: tuple[float, float, float], iterations: int) -> Tensor:
    """Of X (..., rows, columns) X / |X| after so many of X <- a X + b (X X') X + c (X X')^2 X; zero of a zero."""
    found = torch.empty_like(matrices)
    rows, columns = matrices.shape[-2:]
    count = matrices.numel() // (rows * columns)
    _kernels.polar(matrices.data_ptr(), found.data_ptr(), count, rows, columns, *coefficients, iterations)
    return found


def _size(vector: Tensor) -> tuple[int, int]:
    """The number of its elements, and of the threads for them."""
    count = vector.numel()
    return count, max(1, min(torch.get_num_threads(), count // SHARE))
