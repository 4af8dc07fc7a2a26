"""The predictive distribution, by Monte Carlo over the posterior.

    p(y | x) = E_q P(y | model(x; w))  ~  1/S sum_s P(y | model(x; w_s)),    w_s ~ q

A prediction changes nothing: it runs on a private copy of the network, in eval mode, with noise of its own. Any number
may run at the same time, beside a training as well, whose weights they then see as they happen to be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core import inputs
from posterity.core.errors import UsageError
from posterity.core.hosting import Host
from posterity.core.inputs import Inputs
from posterity.core.layout import Layout
from posterity.core.randomness import NoiseSource, fresh_seed
from posterity.likelihoods import Likelihood, Prediction
from posterity.posteriors import Posterior
from posterity.prediction.together import Together, outputs_of

DEFAULT_SAMPLES = 32
BATCH_SIZE = 1000  # rows in a pass


def draw(posterior: Posterior, source: NoiseSource, samples: int | None = None) -> Tensor:
    """Weights (N,) or (`samples`, N) from the posterior, differentiable in its parameters."""
    mean = posterior.mean
    if not posterior.random:
        return mean if samples is None else mean.expand(samples, -1)
    lead = () if samples is None else (samples,)
    return posterior.sample(source.normal((*lead, posterior.noise_size), mean))


@torch.no_grad()
def predict(
    host: Host,
    layout: Layout,
    together: Together,
    posterior: Posterior,
    likelihood: Likelihood,
    x: ArrayLike | Inputs,
    *,
    samples: int,
    batch_size: int,
    seed: int | None,
) -> Prediction:
    """The predictive at `x` (n, ...), with all batches under the same weight samples; see BayesianModule.predict."""
    x = _as_inputs(x, posterior)
    num_rows = inputs.count(x)
    if num_rows == 0:
        raise UsageError("cannot predict for no inputs")
    if samples < 1 or batch_size < 1:
        raise UsageError(f"samples and batch_size must be at least 1, not {samples} and {batch_size}")
    own = host.private()
    batches = [inputs.take(x, slice(at, at + batch_size)) for at in range(0, num_rows, batch_size)]
    rows = []
    for weights in _draws(posterior, samples, together.at_a_time(batches[0], layout.num_weights), seed):
        views = layout.views(weights)
        each = [outputs_of(own, layout, together, views, batch, rewind=False) for batch in batches]
        rows.append(torch.cat(each, dim=1))
    parts = torch.cat(rows).split(batch_size, dim=1)
    return Prediction.concatenate([likelihood.predict(part) for part in parts])


def _as_inputs(x: ArrayLike | Inputs, posterior: Posterior) -> Inputs:
    """Arrays become tensors, where the weights are; real numbers get their dtype, whole ones (tokens) keep theirs."""
    tensors = inputs.mapped(lambda part: part if isinstance(part, Tensor) else torch.as_tensor(np.asarray(part)), x)
    return inputs.moved(tensors, posterior.mean)


def _draws(posterior: Posterior, samples: int, at_a_time: int, seed: int | None) -> Iterator[Tensor]:
    """The weights of all samples, in parts (at_a_time, N); a posterior of few vectors gives each of them once."""
    support = posterior.support if posterior.random else posterior.mean.unsqueeze(0)
    if support is not None and samples >= len(support):
        yield from support.split(at_a_time)
        return
    source, like = NoiseSource(fresh_seed() if seed is None else seed), posterior.mean
    for start in range(0, samples, at_a_time):
        noise = source.normal((min(at_a_time, samples - start), posterior.noise_size), like)
        yield posterior.sample(posterior.evenly(noise, start, samples))
