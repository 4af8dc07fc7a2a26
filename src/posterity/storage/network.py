"""Save and load a Bayesian network: safetensors with a description, nothing executable.

The architecture itself is code and is not stored: `load` takes a module of the same architecture.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.core.reading import Output, described, restored
from posterity.data import Standardisation
from posterity.likelihoods import Likelihood, build_likelihood, place_of
from posterity.posteriors import POSTERIORS
from posterity.priors import PRIORS, Prior
from posterity.storage.sealed import Sealed

FILE = Sealed("posterity-network", 3, what="a network that posterity saved")
SCALE = "standardisation."


def describe(
    net: BayesianModule, *, prior: Prior | None = None, likelihood: Likelihood | None = None
) -> dict[str, Any]:
    """All that is needed, beside the tensors and the module, to build `net` again, or one with these other parts."""
    prior, likelihood = prior or net.prior, likelihood or net.likelihood
    return {
        "weights": {entry.name: list(entry.shape) for entry in net.layout.entries},
        "posterior": {"kind": net.posterior.kind, **net.posterior.options()},
        "prior": {"kind": prior.kind, **prior.options()},
        "likelihood": None if likelihood is None else {"kind": place_of(type(likelihood)), **likelihood.options()},
        "output": described(net.output),
    }


def rebuild(
    description: dict[str, Any],
    model: nn.Module,
    *,
    likelihood: type[Likelihood] | None = None,
    output: Output | None = None,
) -> BayesianModule:
    """A network of this description around a copy of `model`, its tensors still to be loaded.

    `likelihood` is the class of a likelihood that is not the library's, `output` the function that reads the output.
    """
    output = restored(description.get("output"), output)
    model = copy.deepcopy(model)
    layout = layout_of(description["weights"], model)
    posterior = POSTERIORS.named(description["posterior"]["kind"]).empty(layout.num_weights, **description["posterior"])
    prior = PRIORS.named(description["prior"]["kind"]).empty(layout.num_weights, **description["prior"])
    observed = description["likelihood"] and build_likelihood(given=likelihood, **description["likelihood"])
    return BayesianModule(model, layout, posterior, prior, likelihood=observed, output=output)


def layout_of(weights: Mapping[str, list[int]], model: nn.Module) -> Layout:
    """The layout of these weights, shapes by name, of `model`."""
    known = dict(model.named_parameters())
    for name, shape in weights.items():
        if name not in known or list(known[name].shape) != shape:
            found = list(known[name].shape) if name in known else "nothing of that name"
            raise UsageError(f"the saved network has weights {name} of shape {shape}; the module has {found}")
    entries = {e.name: e for e in Layout.of(model, lambda name, _: name in weights).entries}
    return Layout(tuple(entries[name] for name in weights))  # the vector's order, not the module's


def network_state(net: BayesianModule) -> dict[str, Any]:
    """A network as part of a checkpoint: its description and its tensors."""
    return {"network": describe(net), "net": net.state_dict()}


def network_like(net: BayesianModule, state: Mapping[str, Any]) -> BayesianModule:
    """The network of `network_state` around a copy of the module of `net`; its posterior may be of another family."""
    copied = copy.deepcopy(net)
    posterior = state["network"]["posterior"]
    copied.posterior = POSTERIORS[posterior["kind"]].empty(net.num_weights, **posterior).to(net.posterior.mean)
    copied.load_state_dict(state["net"])
    return copied


def save(net: BayesianModule, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write `net` (posterior, prior, likelihood, standardisation, other weights, buffers) to `path`, atomically.

    `notes` are plain values that are kept with it, and read by `read_notes`.
    """
    scale = {} if net.standardisation is None else net.standardisation.state()
    tensors = {**net.state_dict(), **{SCALE + name: tensor for name, tensor in scale.items()}}
    FILE.write(Path(path), {**describe(net), **({} if notes is None else {"notes": notes})}, tensors)


def load(
    path: str | Path,
    model: nn.Module,
    *,
    likelihood: type[Likelihood] | None = None,
    output: Output | None = None,
) -> BayesianModule:
    """The network saved at `path`, ready to predict; `model` gives the architecture and is left as it is.

    A `likelihood` of your own class is given here, unless it is registered (`register_likelihood`). A network whose
    `output` is read by a function needs that function again.
    """
    header, tensors = FILE.read(Path(path))
    dtype = next(tensor.dtype for name, tensor in tensors.items() if name.startswith("posterior."))
    net = rebuild(header, model, likelihood=likelihood, output=output).to(dtype)
    scale = {name.removeprefix(SCALE): tensors.pop(name) for name in list(tensors) if name.startswith(SCALE)}
    net.standardisation = Standardisation.from_state(scale) if scale else None
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise UsageError(f"{path} does not fit this module: {error}") from error
    return net.eval()


def read_notes(path: str | Path) -> dict[str, Any]:
    """What was noted with the network at `path`; empty if nothing was."""
    notes: dict[str, Any] = FILE.read(Path(path))[0].get("notes", {})
    return notes
