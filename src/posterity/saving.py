"""Save and load a Bayesian network: safetensors with a description, nothing executable.

The architecture itself is code and is not stored: `load` takes a module of the same architecture.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, UsageError
from posterity.core.layout import Layout
from posterity.likelihoods import build_likelihood
from posterity.posteriors import MeanField, Point
from posterity.priors import FlatGaussian

FORMAT, VERSION = "posterity-network", 1


def describe(net: BayesianModule) -> dict[str, Any]:
    """All that is needed, beside the tensors and the module, to build `net` again."""
    return {
        "weights": {entry.name: list(entry.shape) for entry in net.layout.entries},
        "posterior": net.posterior.kind,
        "prior": {"kind": net.prior.kind, "centred": net.prior.centre is not None},
        "likelihood": None if net.likelihood is None else {"kind": net.likelihood.kind, **net.likelihood.options()},
    }


def rebuild(description: dict[str, Any], model: nn.Module) -> BayesianModule:
    """A network of this description around a copy of `model`, its tensors still to be loaded."""
    model = copy.deepcopy(model)
    known = dict(model.named_parameters())
    for name, shape in description["weights"].items():
        if name not in known or list(known[name].shape) != shape:
            found = list(known[name].shape) if name in known else "nothing of that name"
            raise UsageError(f"the saved network has weights {name} of shape {shape}; the module has {found}")
    layout = Layout.of(model, lambda name, parameter: name in description["weights"])
    zeros = torch.zeros(layout.num_weights)
    posterior = Point(zeros) if description["posterior"] == "point" else MeanField(zeros, zeros)
    centre = torch.zeros_like(zeros) if description["prior"]["centred"] else None
    prior = FlatGaussian(torch.ones_like(zeros), centre)
    likelihood = description["likelihood"] and build_likelihood(**description["likelihood"])
    return BayesianModule(model, layout, posterior, prior, likelihood=likelihood)


def save(net: BayesianModule, path: str | Path) -> None:
    """Write `net` (posterior, prior, likelihood, deterministic weights, buffers) to `path`, atomically."""
    path = Path(path)
    header = {"format": FORMAT, "version": VERSION, **describe(net)}
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in net.state_dict().items()}
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(tensors, partial, metadata={"posterity": json.dumps(header)})
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path, model: nn.Module) -> BayesianModule:
    """The network saved at `path`; `model` gives the architecture and is left as it is."""
    try:
        with safetensors.safe_open(Path(path), framework="pt") as file:
            header = json.loads(file.metadata()["posterity"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise CorruptFileError(f"{path} is not a network that posterity saved: {error}") from error
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        found = f"{header.get('format')} {header.get('version')}"
        raise CorruptFileError(f"{path} has format {found}; this program reads {FORMAT} {VERSION}")
    net = rebuild(header, model).to(tensors["posterior.mean"].dtype)
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise UsageError(f"{path} does not fit this module: {error}") from error
    return net
