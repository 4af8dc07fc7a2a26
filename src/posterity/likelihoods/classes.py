"""Prediction of classes.

total entropy H[mean_s p_s] = aleatoric mean_s H[p_s] + epistemic I[y; w]      (both >= 0, in nats)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.likelihoods.prediction import Prediction


@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(Prediction):
    """Probabilities `mean` (n, K), `samples` (S, n, K) by weight sample; `aleatoric` and `epistemic` (n,) in nats.

    Of maps, a class at each place, they are (n, ..., K) and (n, ...); log probabilities are those of a whole map.
    """

    kind = "classes"
    table = "classification"

    aleatoric: Tensor
    epistemic: Tensor
    samples: Tensor | None = None
    classes: tuple[str, ...] | None = None  # their names, where they have any

    def __post_init__(self) -> None:
        if self.classes is not None and len(self.classes) != self.mean.shape[-1]:
            raise UsageError(
                f"{len(self.classes)} names of classes ({', '.join(self.classes)}) do not fit a prediction of "
                f"{self.mean.shape[-1]} classes"
            )

    def named(self, classes: Sequence[str]) -> ClassPrediction:
        """The same with the names of its `classes`, in their order."""
        return replace(self, classes=tuple(str(name) for name in classes))

    def places(self) -> ClassPrediction:
        """Of maps, each place as an input by itself: n times the size of a map of them."""
        return replace(
            self,
            mean=self.mean.flatten(0, -2),
            aleatoric=self.aleatoric.flatten(),
            epistemic=self.epistemic.flatten(),
            samples=None if self.samples is None else self.samples.flatten(1, -2),
        )

    @property
    def name(self) -> list[str]:
        """The name of the most probable class at each of the n inputs."""
        if self.classes is None:
            self._refuse("names", "none were given: see label, or give them with named(...)")
        return [self.classes[label] for label in self.label.tolist()]

    @property
    def entropy(self) -> Tensor:
        """Entropy of the mean probabilities (n,), in nats: the total."""
        return self.total

    @property
    def label(self) -> Tensor:
        """The most probable class (n,)."""
        return self.mean.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """The largest class probability (n,)."""
        return self.mean.amax(-1)

    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log of the mean probability of the labels `y` (n,); 0 counts as the smallest number there is."""
        labels = self._labels(y)
        if self.mean.dim() == 2 or self.samples is None:
            logs = _log(self.mean.gather(-1, labels).squeeze(-1))
            return logs.flatten(1).sum(-1) if logs.dim() > 1 else logs
        each = self._log_by_sample(self.samples, labels)
        return each.logsumexp(0) - math.log(len(each))

    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weight samples of the log probability of the labels `y` (n,)."""
        if self.samples is None:
            raise UsageError("the expected log probability of classes needs weight samples, and there are none")
        return self._log_by_sample(self.samples, self._labels(y)).mean(0)

    def _log_by_sample(self, samples: Tensor, labels: Tensor) -> Tensor:
        """(S, n), summed over the places of a map."""
        at_labels = samples.gather(-1, labels.expand(len(samples), *labels.shape)).squeeze(-1)
        return _log(at_labels).flatten(2).sum(-1) if at_labels.dim() > 2 else _log(at_labels)

    def _labels(self, y: ArrayLike | Tensor) -> Tensor:
        labels = torch.as_tensor(y, device=self.mean.device)
        if labels.shape != self.mean.shape[:-1]:
            raise UsageError(f"labels must have shape {tuple(self.mean.shape[:-1])}, not {tuple(labels.shape)}")
        outside = labels[(labels < 0) | (labels >= self.mean.shape[-1]) | (labels != labels.long())]
        if len(outside):
            raise UsageError(f"label {outside[0].item()} is not one of 0 to {self.mean.shape[-1] - 1}")
        return labels.long().unsqueeze(-1)

    def columns(self) -> dict[str, Tensor]:
        """Probabilities, label, confidence and uncertainties."""
        names = ("label", "confidence", "mean", "aleatoric", "epistemic", "total")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and numbers, with the names of the classes where they have any."""
        named = {} if self.classes is None else {"name": self.name, "classes": list(self.classes)}
        return super().to_dict() | named

    def _summary(self) -> str:
        aleatoric, epistemic = self.aleatoric.mean().item(), self.epistemic.mean().item()
        return (
            f"{self.mean.shape[-1]} classes, mean confidence {self.confidence.mean().item():.3g}\n"
            f"  nats on average: aleatoric {aleatoric:.3g}, epistemic {epistemic:.3g}"
        )


def entropy(probs: Tensor) -> Tensor:
    """-sum p log p over the last axis, in nats, with 0 log 0 = 0."""
    return -torch.xlogy(probs, probs).sum(-1)


def predict_classes(probs: Tensor) -> ClassPrediction:
    """The predictive of class probabilities (S, n, K)."""
    mean = probs.mean(0)
    aleatoric = entropy(probs).mean(0)
    # Mutual information is not negative; rounding can make the difference so.
    epistemic = (entropy(mean) - aleatoric).clamp_min(0)
    return ClassPrediction(mean, aleatoric, epistemic, probs)


def _log(probs: Tensor) -> Tensor:
    return probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
