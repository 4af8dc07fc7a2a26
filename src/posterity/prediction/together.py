"""Outputs of one network under S weight samples: evaluated together where that can be done and is faster.

outputs_s = model(x; w_s),   s = 1 .. S       one torch.vmap over s, or S passes, with the same result
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posterity.core import inputs
from posterity.core.errors import UsageError
from posterity.core.hosting import Host
from posterity.core.inputs import Inputs
from posterity.core.layout import Layout

SAMPLES_AT_A_TIME = 2**26  # weights drawn together in prediction: 256 MiB in single precision
FEW_ROWS = 32  # below this a grouped convolution over all samples beats one convolution a sample (measured)

# Modules whose code torch.vmap can run over many weight samples at a time. Others are run one by one.
FOLDING = (
    nn.Linear, nn.Bilinear, nn.LayerNorm, nn.Embedding, nn.Flatten, nn.Unflatten, nn.Identity, nn.Sequential,
    nn.ModuleList, nn.ModuleDict, nn.Dropout, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh,
    nn.Sigmoid, nn.Softplus,
)  # fmt: skip
CONVOLUTIONAL = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.GroupNorm,
)


class Together:
    """Whether a network's weight samples are evaluated together: what its modules say, and what trying has shown."""

    def __init__(self, model: nn.Module) -> None:
        # The user's own composition is tried; PyTorch's (attention, for instance) is known not to fold well.
        known = [m for m in model.modules() if not list(m.children()) or type(m).__module__.startswith("torch.")]
        self.folds = all(isinstance(m, FOLDING + CONVOLUTIONAL) for m in known)
        self.convolves = any(isinstance(m, CONVOLUTIONAL) for m in known)

    def faster(self, x: Inputs) -> bool:
        """Whether to evaluate them together for these inputs of the network."""
        return self.folds and (not self.convolves or inputs.count(x) < FEW_ROWS)

    def at_a_time(self, x: Inputs, num_weights: int) -> int:
        """How many samples of `num_weights` weights to draw at a time, so that memory is bounded."""
        return max(1, SAMPLES_AT_A_TIME // num_weights) if self.faster(x) else 1


def outputs_of(
    host: Host,
    layout: Layout,
    together: Together,
    views: Mapping[str, Tensor],
    x: Inputs,
    *,
    rewind: bool,
) -> Tensor:
    """Outputs (S, ...) for `views` of S weight samples, or (1, ...) for views of one.

    With `rewind` an attempt that failed leaves the global generator as it was: a resumed training may not try again
    there. Without, nothing global is written.
    """
    first = layout.entries[0]
    if views[first.name].dim() == len(first.shape):
        return _output(host, views, x).unsqueeze(0)
    if len(views[first.name]) < 2 or not together.faster(x):
        return _one_by_one(host, views, x)
    before = torch.get_rng_state() if rewind else None
    try:
        fold = torch.vmap(lambda v: _output(host, v, x), randomness="different")
        result: Tensor = fold(dict(views))
        return result
    except RuntimeError:
        if before is not None:
            torch.set_rng_state(before)
    result = _one_by_one(host, views, x)
    # The network's own code does something vmap cannot, so never try again. Had the arguments been at fault, the
    # passes one by one would have failed too, and nothing would have been learnt of the network.
    together.folds = False
    return result


def _one_by_one(host: Host, views: Mapping[str, Tensor], x: Inputs) -> Tensor:
    rows = zip(*(view.unbind(0) for view in views.values()), strict=True)
    return torch.stack([_output(host, dict(zip(views, row, strict=True)), x) for row in rows])


def _output(host: Host, views: Mapping[str, Tensor], x: Inputs) -> Tensor:
    with host.filled(views):
        output = inputs.call(host.model, x)
    if not isinstance(output, Tensor):
        raise UsageError(
            f"the network must return one tensor, not {type(output).__name__}: say which by bayesian(output=...)"
        )
    return output
