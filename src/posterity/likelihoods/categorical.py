"""Categorical: one of K classes, from K logits; and Bernoulli: yes or no, from one.

log P(y = k | z) = z_k - logsumexp(z)
log P(y | z)     = y log sigmoid(z) + (1 - y) log sigmoid(-z)

With class weights c and label smoothing a the categorical is trained with PyTorch's weighted and smoothed
    (1 - a) c_y log P(y) + a / K sum_k c_k log P(k)
in the place of log P(y), not divided by the sum of the weights: a class weight of 2 counts its data twice. Predictions
remain the softmax. Limits: c = 1, a = 0 is the plain one.

Of maps (segmentation) the logits are (S, n, K, ...) and the labels (n, ...); a map's log probability is the sum over
its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import DataError, UsageError
from posterity.likelihoods.classes import ClassPrediction, predict_classes
from posterity.likelihoods.likelihood import Likelihood

IGNORE_NOTHING = -(2**62)


class Categorical(Likelihood):
    """One of K classes, from K logits; `class_weight` are K numbers of at least 0, `label_smoothing` is below 1."""

    kind = "categorical"
    task = "classification"
    predicts_by_log_prob = True
    class_weight: Tensor | None

    def __init__(self, *, class_weight: Sequence[float] | Tensor | None = None, label_smoothing: float = 0.0) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise UsageError(f"label_smoothing must be at least 0 and below 1, not {label_smoothing}")
        self.label_smoothing = label_smoothing
        given = None if class_weight is None else torch.as_tensor(class_weight, dtype=torch.get_default_dtype())
        if given is not None and not (given.dim() == 1 and bool((given >= 0).all() and given.isfinite().all())):
            raise UsageError(f"class_weight is a number of at least 0 for each class, not {class_weight}")
        # Its values are options: they are stored as such, and again by none who loads.
        self.register_buffer("class_weight", given, persistent=False)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for logits (S, n, K) and labels (n,), or of maps, see the header."""
        expected = (outputs.shape[1], *outputs.shape[3:])
        if y.shape != expected:
            raise UsageError(f"categorical targets must be labels of shape {expected}, not {tuple(y.shape)}")
        if self.class_weight is not None and len(self.class_weight) != outputs.shape[2]:
            raise UsageError(f"{len(self.class_weight)} class weights do not fit {outputs.shape[2]} classes")
        labels = y if len(outputs) == 1 else y.repeat(len(outputs), *[1] * (y.dim() - 1))
        loss = F.cross_entropy(
            outputs.flatten(0, 1),
            labels,
            None if self.class_weight is None else self.class_weight.to(outputs.dtype),
            reduction="none",
            # No label is ignored: PyTorch would silently pass over -100.
            ignore_index=IGNORE_NOTHING,
            label_smoothing=self.label_smoothing,
        )
        by_datum = loss if y.dim() == 1 else loss.flatten(1).sum(-1)
        return -by_datum.view(outputs.shape[:2])

    def predict(self, outputs: Tensor) -> ClassPrediction:
        """Class probabilities and their uncertainty: the softmax, or those of a subclass's own `log_prob`."""
        if type(self).log_prob is Categorical.log_prob:
            return predict_classes(outputs.movedim(2, -1).softmax(-1))
        return predict_classes(_by_log_prob(self, outputs, outputs.shape[2]))

    def labels(self, outputs: Tensor) -> Tensor:
        """Those of one sample are those of its largest logits."""
        own = type(self).predict is Categorical.predict and type(self).log_prob is Categorical.log_prob
        return outputs[0].argmax(1) if own and len(outputs) == 1 else super().labels(outputs)

    def check_targets(self, y: Tensor) -> None:
        """Labels that there are weights for."""
        if self.class_weight is not None and len(y) and int(y.max()) >= len(self.class_weight):
            raise DataError(f"there are {len(self.class_weight)} class weights, and a label {int(y.max())}")

    def num_outputs(self, num_targets: int) -> int:
        """One logit a class."""
        return num_targets

    def num_classes_of(self, num_outputs: int) -> int:
        """One for each logit."""
        return num_outputs

    def options(self) -> dict[str, Any]:
        """What differs from the plain one."""
        weight = {} if self.class_weight is None else {"class_weight": self.class_weight.tolist()}
        return weight | ({"label_smoothing": self.label_smoothing} if self.label_smoothing else {})


class Bernoulli(Likelihood):
    """Yes or no, from one logit; predictions have the two columns (no, yes)."""

    kind = "bernoulli"
    task = "binary"
    predicts_by_log_prob = True

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for logits (S, n, 1) and targets 0 or 1 (n,)."""
        if outputs.shape[-1] != 1 or y.dim() != 1 or outputs.shape[1] != y.shape[0]:
            raise UsageError(
                f"a Bernoulli likelihood takes one logit and targets (n,), not outputs "
                f"{tuple(outputs.shape[1:])} and targets {tuple(y.shape)}"
            )
        logits = outputs.squeeze(-1)
        targets = y.to(logits.dtype).expand_as(logits)
        return -F.binary_cross_entropy_with_logits(logits, targets, reduction="none")

    def predict(self, outputs: Tensor) -> ClassPrediction:
        """Probabilities (n, 2) of no and yes, and their uncertainty; of a subclass by its own `log_prob`."""
        if type(self).log_prob is Bernoulli.log_prob:
            return predict_classes(torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], -1))
        return predict_classes(_by_log_prob(self, outputs, 2))

    def num_outputs(self, num_targets: int) -> int:
        """Always one."""
        return 1


def _by_log_prob(likelihood: Likelihood, outputs: Tensor, classes: int) -> Tensor:
    """Probabilities (S, n, K) in the proportions that `log_prob` gives the classes."""
    if outputs.dim() > 3:
        raise UsageError(f"a {type(likelihood).__name__} of maps must define predict: log_prob is that of a whole map")
    rows = outputs.shape[1]
    every = (torch.full((rows,), k, device=outputs.device) for k in range(classes))
    return torch.stack([likelihood.log_prob(outputs, labels) for labels in every], -1).softmax(-1)
