"""How far AdaBayes-FP's path is from that of its limit, SGD or AdamW, on the same gradients        (SPEC 13, A3).

u = s2 sqrt(<g^2>) / eta  says where between its limits AdaBayes-FP is (source 001, eq. 20; g of the summed loss):
    sgd     u -> 0:    s2_post = s2 (1 - u^2 + ...)                                       [001, eq. 21, 22]
    adamw   1/u -> 0:  s2_post = eta / sqrt(<g^2>) (1 - 1/(2u) + ...)                     [001, eq. 23-26]

Both partners are PyTorch's own. Its SGD sums gradients where source 001 has a debiased average: at step t the same step
has the rate lr_sgd (1 - b1) / (1 - b1^t). AdamW's decay is the share decay / eta, its eps is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError, unknown_name
from posterity.core.randomness import generator
from posterity.optim import AdaBayesFP

BETAS = (0.9, 0.999)
BATCH = 10  # cancels: the loss is a mean
SGD, ADAMW = "sgd", "adamw"


def adabayes_limit(
    *,
    limit: str,
    distance: float,
    weights: int = 100,
    steps: int = 300,
    lr: float = 1e-3,
    lr_sgd: float = 0.1,
    decay: float = 5e-5,
    seed: int = 0,
) -> dict[str, float]:
    """The largest deviation between the two paths over all weights and steps, relative to the longest way that is gone.

    `distance` is u for sgd, whose gradients are then small, and 1/u for adamw, whose lr_sgd is then large. Gradients
    are normal. Limits: the deviation falls as distance^2 for sgd and as distance for adamw (from where the distance is
    below the smallest gradients: a first step of AdamW's does not depend on the gradient's size, one of ours does).
    """
    if limit not in (SGD, ADAMW):
        raise unknown_name("limit", limit, (SGD, ADAMW))
    if not distance > 0 or steps < 1:
        raise UsageError(f"a distance is above 0 and there is a step at least, not {distance} and {steps}")
    random = generator(seed, "gradients")
    size = distance * lr / lr_sgd if limit == SGD else 1.0
    gradients = size * torch.randn(steps, weights, generator=random, dtype=torch.float64)
    start = torch.randn(weights, generator=random, dtype=torch.float64)
    if limit == SGD:  # steps as small as its gradients would be rounded beside weights of 1
        start = torch.zeros_like(start)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    if limit == SGD:
        # Torch's SGD has no decay beside the gradient, so there is none here.
        one = AdaBayesFP([ours], lr=lr, lr_sgd=lr_sgd, batch_size=BATCH, betas=BETAS)
        other: torch.optim.Optimizer = torch.optim.SGD([theirs], lr=lr_sgd, momentum=BETAS[0])
    else:
        one = AdaBayesFP([ours], lr=lr, lr_sgd=lr / distance, batch_size=BATCH, betas=BETAS, weight_decay=decay)
        other = torch.optim.AdamW([theirs], lr=lr, betas=BETAS, eps=0.0, weight_decay=decay / lr)
    apart, way = 0.0, 0.0
    for t, gradient in enumerate(gradients, start=1):
        if limit == SGD:
            other.param_groups[0]["lr"] = lr_sgd * (1 - BETAS[0]) / (1 - BETAS[0] ** t)
        for weight, optimizer in ((ours, one), (theirs, other)):
            weight.grad = gradient.clone()
            optimizer.step()
        apart, way = max(apart, _largest(ours - theirs)), max(way, _largest(theirs - start))
    return {"deviation": apart / way}


def _largest(difference: Tensor) -> float:
    return float(difference.detach().abs().max())
