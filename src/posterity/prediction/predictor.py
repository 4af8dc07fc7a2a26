"""Predictor: the predictive under a set of weights that is drawn once, and what its inputs and outputs mean.

    p(y | x) = 1/S sum_s P(y | model(x; w_s)),    w_1 .. w_S drawn from q when it is made

`net.predict` draws anew, which for one row costs more than all S passes (with 1.1 million weights 30 times as much).
Here the S networks are evaluated together, and that is all. What it answers does not depend on what becomes of the
network: weights, buffers and likelihood are copies. Any number of threads may predict at a time.

Limits: with the same seed it is `net.predict`; of a posterior of K <= S vectors it holds each once; of a point it is
the network itself, as it is with the mean weights (`samples` None).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.core.hosting import Host
from posterity.core.inputs import Inputs
from posterity.core.layout import Layout
from posterity.core.randomness import fresh_seed
from posterity.core.reading import Output
from posterity.data import Standardisation
from posterity.likelihoods import Likelihood, Prediction
from posterity.posteriors import Posterior
from posterity.prediction import together
from posterity.prediction.predictive import BATCH_SIZE, as_inputs, as_tensors, draws, under, whole_support


class Predictor:
    """S weight vectors, the network they are for, its likelihood; optionally a standardisation and classes' names.

    `views` are the weights by name, each (S, *shape). `family` is that of the posterior they come from, `mean_weights`
    whether they are its mean rather than draws, `seed` what they were drawn with (None where nothing was drawn). Take
    one from `net.predictor()` or `load_predictor`.
    """

    def __init__(
        self,
        host: Host,
        layout: Layout,
        weights: Tensor,
        likelihood: Likelihood,
        *,
        family: str,
        seed: int | None = None,
        mean_weights: bool = False,
        standardisation: Standardisation | None = None,
        labels: Sequence[object] | None = None,
        output: Output | None = None,
    ) -> None:
        """For `weights` (S, N); the module of `host` has its output read by `output` already.

        `host` and `likelihood` are taken over: nobody else has them.
        """
        self.host, self.layout, self.likelihood = host, layout, likelihood
        # Each weight's S values beside each other: a convolution over all samples then needs no copy of them.
        shaped = layout.views(weights.detach())
        self.views = {name: view.clone(memory_format=torch.contiguous_format) for name, view in shaped.items()}
        self.family, self.seed, self.mean_weights = family, seed, mean_weights
        self.standardisation, self.output = standardisation, output
        self.labels = None if labels is None else tuple(str(label) for label in labels)
        self.rescales = standardisation is not None and not _keeps_targets(standardisation)
        self._together = together.Together(host.model, frozen=True)

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        host: Host,
        layout: Layout,
        posterior: Posterior,
        likelihood: Likelihood,
        *,
        samples: int | None,
        seed: int | None,
        **meaning: Any,
    ) -> Predictor:
        """One of `samples` draws, or of the mean, that shares nothing with what it is made of."""
        if samples is None:
            weights, seed = posterior.mean.unsqueeze(0), None
        else:
            if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
                raise UsageError(
                    f"samples is a whole number, at least 1, or None for the mean weights; not {samples!r}"
                )
            drawn = whole_support(posterior, samples) is None
            seed = (fresh_seed() if seed is None else seed) if drawn else None
            at_a_time = max(1, together.SAMPLES_AT_A_TIME // layout.num_weights)
            weights = torch.cat(list(draws(posterior, samples, at_a_time, seed)))
        # A copy of a private host: the network itself may be in the middle of a pass.
        own = copy.deepcopy(host.private())
        own.model.requires_grad_(False)
        frozen = copy.deepcopy(likelihood).requires_grad_(False).eval()
        mean = samples is None
        return cls(own, layout, weights, frozen, family=posterior.kind, seed=seed, mean_weights=mean, **meaning)

    def __call__(self, x: ArrayLike | Inputs, *, batch_size: int = BATCH_SIZE) -> Prediction:
        """The same as `predict`."""
        return self.predict(x, batch_size=batch_size)

    @torch.no_grad()
    def predict(self, x: ArrayLike | Inputs, *, batch_size: int = BATCH_SIZE) -> Prediction:
        """The predictive at `x` (n, ...): of raw inputs, in raw units, with names of classes, as far as known."""
        x = as_tensors(x)
        if self.standardisation is not None:
            x = self.standardisation.inputs(x)
        parts = self.host, self.layout, self._together, self._parts, self.likelihood
        return self.told(under(*parts, as_inputs(x, self._first), batch_size=batch_size))

    def told(self, prediction: Prediction) -> Prediction:
        """`prediction` in the targets' own units, with the names of classes."""
        if self.rescales:
            assert self.standardisation is not None
            prediction = prediction.rescaled(self.standardisation.y_mean, self.standardisation.y_sd)
        return prediction if self.labels is None else prediction.named(self.labels)

    def _parts(self, at_a_time: int) -> Iterator[Mapping[str, Tensor]]:
        for start in range(0, self.num_samples, at_a_time):
            yield {name: view[start : start + at_a_time] for name, view in self.views.items()}

    @property
    def _first(self) -> Tensor:
        return self.views[self.layout.entries[0].name]

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self._first.device

    @property
    def weights(self) -> Tensor:
        """The weight vectors (S, N)."""
        return self.layout.flatten(self.views)

    @property
    def num_samples(self) -> int:
        """S, the number of weight vectors."""
        return len(self._first)

    @property
    def what(self) -> str:
        """What its weights are, in words."""
        if self.mean_weights:
            return f"mean weights of a {self.family} posterior"
        drawn = "" if self.seed is None else f" (seed {self.seed})"
        vectors = "1 frozen draw" if self.num_samples == 1 else f"{self.num_samples} frozen draws"
        return f"{vectors} of a {self.family} posterior{drawn}"

    def __repr__(self) -> str:
        parts = [self.what, f"num_weights={self.layout.num_weights}", f"likelihood={self.likelihood.kind}"]
        parts += [] if self.standardisation is None else ["raw inputs"]
        parts += [] if self.labels is None else [f"classes {', '.join(self.labels)}"]
        return f"Predictor({', '.join(parts)})"


def _keeps_targets(standardisation: Standardisation) -> bool:
    return bool((standardisation.y_mean == 0).all() and (standardisation.y_sd == 1).all())
