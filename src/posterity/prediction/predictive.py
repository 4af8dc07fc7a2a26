"""The predictive distribution, by Monte Carlo over the posterior.

    p(y | x) = E_q P(y | model(x; w))  ~  1/S sum_s P(y | model(x; w_s)),    w_s ~ q

A prediction changes nothing: it runs on a private copy of the network, in eval mode, with noise of its own. Any number
may run at the same time, beside a training as well, whose weights they then see as they happen to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core import inputs
from posterity.core.errors import DataError, UsageError
from posterity.core.hosting import Host
from posterity.core.inputs import Inputs
from posterity.core.layout import Layout
from posterity.core.randomness import NoiseSource, fresh_seed
from posterity.data.validation import check_finite, numeric, tensor_of
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
    if samples < 1:
        raise UsageError(f"samples must be at least 1, not {samples}")
    x = as_inputs(x, posterior.mean)

    def parts(at_a_time: int) -> Iterator[dict[str, Tensor]]:
        return map(layout.views, draws(posterior, samples, at_a_time, seed))

    return under(host, layout, together, parts, likelihood, x, batch_size=batch_size)


def under(
    host: Host,
    layout: Layout,
    together: Together,
    weights: Callable[[int], Iterable[Mapping[str, Tensor]]],
    likelihood: Likelihood,
    x: Inputs,
    *,
    batch_size: int,
) -> Prediction:
    """The predictive at `x` (n, ...) under `weights`: called with how many at a time, they give some by name."""
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}")
    own = host.private()
    batches = [inputs.take(x, slice(at, at + batch_size)) for at in range(0, inputs.count(x), batch_size)]
    rows = []
    for views in weights(together.at_a_time(batches[0], layout.num_weights)):
        each = [_outputs(own, layout, together, views, batch) for batch in batches]
        rows.append(torch.cat(each, dim=1))
    parts = torch.cat(rows).split(batch_size, dim=1)
    return Prediction.concatenate([likelihood.predict(each) for each in parts])


def _outputs(host: Host, layout: Layout, together: Together, views: Mapping[str, Tensor], x: Inputs) -> Tensor:
    """The outputs (S, n, ...) at `x` (n, ...), or what is wrong with it."""
    rows = "inputs are rows (n, ...), one row is x[None]"
    try:
        found = outputs_of(host, layout, together, views, x, rewind=False)
    except (UsageError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if "alloc" in str(error):  # out of memory, of which PyTorch on a processor tells in no other way
            raise
        shapes = inputs.mapped(lambda part: tuple(part.shape), x)
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"the network cannot take inputs of shape {shapes}: {reason}; {rows}") from error
    if found.dim() < 3 or found.shape[1] != inputs.count(x):
        shape = tuple(found.shape[1:])
        raise DataError(f"the network answers {inputs.count(x)} rows of inputs with outputs of shape {shape}; {rows}")
    return found


def as_tensors(x: ArrayLike | Inputs) -> Inputs:
    """Inputs as a tensor (n, ...) of at least one row, or several of them."""

    def tensor(part: ArrayLike | Tensor) -> Tensor:
        found = part if isinstance(part, Tensor) else tensor_of(numeric(part, "the inputs"))
        if found.dim() == 0 or len(found) == 0:
            raise DataError(f"cannot predict for no inputs: their shape is {tuple(found.shape)}")
        return found

    return inputs.mapped(tensor, x)


def as_inputs(x: ArrayLike | Inputs, like: Tensor) -> Inputs:
    """Inputs for weights `like` these: whole numbers (tokens) stay such, NaN and infinite ones are refused."""
    found = inputs.moved(as_tensors(x), like)
    for part in inputs.parts(found):
        if part.is_floating_point():
            check_finite(part, "the inputs")
    return found


def whole_support(posterior: Posterior, samples: int) -> Tensor | None:
    """All weight vectors (K, N) of a posterior that has no more than `samples` of them: no draw is needed."""
    support = posterior.support if posterior.random else posterior.mean.unsqueeze(0)
    return support if support is not None and samples >= len(support) else None


def draws(posterior: Posterior, samples: int, at_a_time: int, seed: int | None) -> Iterator[Tensor]:
    """The weights of all samples, in parts (at_a_time, N); a posterior of few vectors gives each of them once."""
    support = whole_support(posterior, samples)
    if support is not None:
        yield from support.split(at_a_time)
        return
    source, like = NoiseSource(fresh_seed() if seed is None else seed), posterior.mean
    for start in range(0, samples, at_a_time):
        noise = source.normal((min(at_a_time, samples - start), posterior.noise_size), like)
        yield posterior.sample(posterior.evenly(noise, start, samples))
