"""How good class probabilities are: accuracy, log-likelihood, Brier score, confidence, entropy.

    accuracy     = mean_i [argmax_c p_ic = y_i]
    nll          = -mean_i log p_{i, y_i},              p = mean_s p_s: the predictive
    expected_nll = -mean_s mean_i log p_{s, i, y_i}     under q
    brier        = mean_i sum_c (p_ic - [y_i = c])^2    in [0, 2]
    confidence   = mean_i max_c p_ic                    in [1/K, 1]
    entropy_i    = -sum_c p_ic log p_ic                 in [0, log K], nats

Limits: nll <= expected_nll (Jensen), equal for one sample; uniform p gives nll = entropy = log K and
brier = 1 - 1/K; a one-hot p on the label gives accuracy 1, nll = brier = entropy = 0.

A binary task comes as two columns. Of tied classes the first is the prediction.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.metrics import checks


def accuracy(probs: Tensor, y: Tensor) -> float:
    """Share of the rows of `probs` (n, K) whose largest entry is at the label `y` (n,)."""
    probs, y = checks.classification(probs, y)
    return (probs.argmax(dim=1) == y).double().mean().item()


def nll(probs: Tensor, y: Tensor) -> float:
    """Mean -log of the predictive probability `probs` (n, K), already averaged over samples, at `y` (n,).

    A probability of zero counts as the smallest normal number of its dtype, so that the mean is finite.
    """
    probs, y = checks.classification(probs, y)
    floor = torch.finfo(probs.dtype).tiny
    return -_at_label(probs, y).clamp_min(floor).double().log().mean().item()


def expected_nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean over weight samples of the mean -log probability: `log_probs` (S, n, K), `y` (n,).

    Not floored: a sample that gives a label probability zero makes it infinite.
    """
    log_probs, y = checks.log_probabilities(log_probs, y)
    return -_at_label(log_probs, y.expand(log_probs.shape[:2])).double().mean().item()


def brier(probs: Tensor, y: Tensor) -> float:
    """Squared distance of `probs` (n, K) from the one-hot label `y` (n,): sum over classes, mean over n."""
    probs, y = checks.classification(probs, y)
    onehot = torch.nn.functional.one_hot(y, probs.shape[1])
    return (probs.double() - onehot).square().sum(dim=1).mean().item()


def confidence(probs: Tensor) -> float:
    """Mean largest probability of the rows of `probs` (n, K)."""
    return checks.probabilities(probs).amax(dim=1).double().mean().item()


def entropy(probs: Tensor) -> Tensor:
    """Entropy (n,) of each row of `probs` (n, K) in nats, with 0 log 0 = 0."""
    probs = checks.probabilities(probs)
    terms: Tensor = torch.special.entr(probs.double())
    return terms.sum(dim=1).to(probs.dtype)


def _at_label(values: Tensor, y: Tensor) -> Tensor:
    """The entry of `values` (..., K) at the label `y` (...)."""
    return values.gather(-1, y.unsqueeze(-1)).squeeze(-1)
