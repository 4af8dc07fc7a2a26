"""NUTS (numpyro) on exactly the posterior that a Bayesian network of this library approximates.

    log density(w) = log P(y | w) / temperature + log prior(w),    network: linear maps with tanh between them

in double precision, with all its constants; it equals -(num_data nll / temperature - log prior) of the library. It is
sampled in z = w / sd_prior, which changes the geometry and not the posterior. Chains start from draws of the prior.

Weights are not identifiable (hidden units can be exchanged), so convergence is judged on predictions: split R-hat and
effective sample size of the network's outputs at each input.

[1] Hoffman, Gelman, The No-U-Turn Sampler, 2014.    [2] Gelman et al., Bayesian Data Analysis, 3rd edition, 11.4-11.5.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import posterity as pt
from posterity.priors import FlatGaussian

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
jax: Any = import_module("jax")
jax.config.update("jax_enable_x64", True)
jnp: Any = jax.numpy

MAX_R_HAT, MIN_EFFECTIVE = 1.05, 100.0  # what is called converged
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """How to sample: what a cached result depends on beside the posterior."""

    chains: int = 4
    warmup: int = 500
    draws: int = 500
    max_depth: int = 8
    seed: int = 0


@dataclass(frozen=True)
class Draws:
    """Weights (chains, draws, N), and how they were got."""

    weights: Array
    seconds: float  # of the processor, compilation included
    steps: float  # gradients for each draw, on average
    divergences: int


def log_density(net: pt.BayesianModule, x: Tensor, y: Tensor, temperature: float = 1.0) -> Callable[[Any], Any]:
    """The tempered log posterior of `net`'s weights (N,), not normalised, as a JAX function."""
    inputs, targets = jnp.asarray(x.double().numpy()), jnp.asarray(y.numpy())
    shapes = [entry.shape for entry in net.layout.entries]
    ends = np.cumsum([entry.size for entry in net.layout.entries])[:-1].tolist()
    if not isinstance(net.prior, FlatGaussian) or net.prior.centre is not None:
        raise ValueError(f"only Gaussian priors with mean 0 are written here, not {net.prior}")
    precision = jnp.asarray(net.prior.precision.double().numpy())
    log_likelihood = _gaussian(net.likelihood.noise) if isinstance(net.likelihood, pt.GaussianNoise) else _categorical

    def density(w: Any) -> Any:
        tensors = [part.reshape(shape) for part, shape in zip(jnp.split(w, ends), shapes, strict=True)]
        out = inputs
        for place in range(0, len(tensors), 2):  # weight and bias by turns
            out = (jnp.tanh(out) if place else out) @ tensors[place].T + tensors[place + 1]
        log_prior = 0.5 * jnp.sum(jnp.log(precision / (2 * jnp.pi)) - precision * w**2)
        return log_likelihood(out, targets) / temperature + log_prior

    return density


def _gaussian(noise: Any) -> Callable[[Any, Any], Any]:
    def log_likelihood(out: Any, y: Any) -> Any:
        return jnp.sum(-0.5 * ((y - out) / noise) ** 2 - jnp.log(noise) - 0.5 * jnp.log(2 * jnp.pi))

    return log_likelihood


def _categorical(out: Any, y: Any) -> Any:
    return jnp.sum(jax.nn.log_softmax(out) * jax.nn.one_hot(y, out.shape[-1]))


@torch.no_grad()
def library_log_density(net: pt.BayesianModule, x: Tensor, y: Tensor, w: Tensor, temperature: float = 1.0) -> Tensor:
    """The same (S,) from the library's own likelihood and prior, for weights (S, N)."""
    if net.likelihood is None:
        raise ValueError("the network needs a likelihood")
    nll = -net.likelihood.log_prob(net.outputs(x, weights=w), y).mean(-1)
    return net.prior.log_density(w) - len(x) * nll / temperature


def discrepancy(net: pt.BayesianModule, x: Tensor, y: Tensor, temperature: float, *, seed: int = 0) -> float:
    """The largest difference between the two at weights around the network's; `net` in double precision."""
    noise = torch.randn(5, net.num_weights, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    w = net.posterior.mean.detach() + 0.1 * noise
    ours = library_log_density(net, x.double(), _as(y, w), w, temperature).numpy()
    theirs = np.array([float(log_density(net, x, y, temperature)(jnp.asarray(row))) for row in w.numpy()])
    return float(np.abs(ours - theirs).max())


def _as(y: Tensor, w: Tensor) -> Tensor:
    return y.to(w) if y.is_floating_point() else y


def sample(net: pt.BayesianModule, x: Tensor, y: Tensor, temperature: float, plan: Plan) -> Draws:
    """Run the chains."""
    infer: Any = import_module("numpyro.infer")
    density, sd = log_density(net, x, y, temperature), jnp.asarray(net.prior.sd.double().numpy())
    kernel = infer.NUTS(potential_fn=jax.jit(lambda z: -density(z * sd)), max_tree_depth=plan.max_depth)
    mcmc = infer.MCMC(
        kernel,
        num_warmup=plan.warmup,
        num_samples=plan.draws,
        num_chains=plan.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = jnp.asarray(np.random.default_rng(plan.seed).standard_normal((plan.chains, net.num_weights)))
    began = time.process_time()
    mcmc.run(jax.random.PRNGKey(plan.seed), init_params=start, extra_fields=("num_steps", "diverging"))
    weights = np.asarray(mcmc.get_samples(group_by_chain=True) * sd)
    extra = mcmc.get_extra_fields()
    seconds = time.process_time() - began
    return Draws(weights, seconds, float(extra["num_steps"].mean()), int(extra["diverging"].sum()))


def cached_sample(
    net: pt.BayesianModule, data: pt.Dataset, temperature: float, plan: Plan, cache: Path | None
) -> Draws:
    """`sample`, or what it gave before for the same posterior and plan."""
    probe = library_log_density(net, data.x.double(), _as(data.y, net.posterior.mean), net.posterior.mean[None])
    what = [asdict(plan), temperature, net.num_weights, round(probe.item(), 6)]
    path = cache and cache / f"nuts-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}.npz"
    if path and path.exists():
        with np.load(path) as kept:
            return Draws(kept["weights"], float(kept["seconds"]), float(kept["steps"]), int(kept["divergences"]))
    draws = sample(net, data.x, data.y, temperature, plan)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **asdict(draws))
        partial.replace(path)
    return draws


def convergence(outputs: Array) -> dict[str, Any]:
    """R-hat and effective sample size of `outputs` (chains, draws, n), the worst and the median input."""
    diagnostics: Any = import_module("numpyro.diagnostics")
    r_hat, effective = diagnostics.split_gelman_rubin(outputs), diagnostics.effective_sample_size(outputs)
    worst, fewest = float(r_hat.max()), float(effective.min())
    return {
        "r_hat": {"max": worst, "median": float(np.median(r_hat))},
        "effective": {"min": fewest, "median": float(np.median(effective))},
        "converged": worst < MAX_R_HAT and fewest > MIN_EFFECTIVE,
    }
