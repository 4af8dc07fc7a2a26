"""Save and load a Bayesian network: safetensors with a description, nothing executable.

The architecture itself is code and is not stored: `load` takes a module of the same architecture.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, UsageError
from posterity.core.layout import Layout
from posterity.core.reading import Output, described, restored
from posterity.likelihoods import Likelihood, build_likelihood
from posterity.posteriors import POSTERIORS
from posterity.priors import PRIORS, Prior
from posterity.storage.atomic import replace_file

FORMAT, VERSION = "posterity-network", 3


def describe(
    net: BayesianModule, *, prior: Prior | None = None, likelihood: Likelihood | None = None
) -> dict[str, Any]:
    """All that is needed, beside the tensors and the module, to build `net` again, or one with these other parts."""
    prior, likelihood = prior or net.prior, likelihood or net.likelihood
    return {
        "weights": {entry.name: list(entry.shape) for entry in net.layout.entries},
        "posterior": {"kind": net.posterior.kind, **net.posterior.options()},
        "prior": {"kind": prior.kind, **prior.options()},
        "likelihood": None if likelihood is None else {"kind": likelihood.kind, **likelihood.options()},
        "output": described(net.output),
    }


def rebuild(description: dict[str, Any], model: nn.Module, *, output: Output | None = None) -> BayesianModule:
    """A network of this description around a copy of `model`, its tensors still to be loaded."""
    output = restored(description.get("output"), output)
    model = copy.deepcopy(model)
    known = dict(model.named_parameters())
    for name, shape in description["weights"].items():
        if name not in known or list(known[name].shape) != shape:
            found = list(known[name].shape) if name in known else "nothing of that name"
            raise UsageError(f"the saved network has weights {name} of shape {shape}; the module has {found}")
    entries = {e.name: e for e in Layout.of(model, lambda name, _: name in description["weights"]).entries}
    layout = Layout(tuple(entries[name] for name in description["weights"]))  # the vector's order, not the module's
    posterior = POSTERIORS[description["posterior"]["kind"]].empty(layout.num_weights, **description["posterior"])
    prior = PRIORS[description["prior"]["kind"]].empty(layout.num_weights, **description["prior"])
    likelihood = description["likelihood"] and build_likelihood(**description["likelihood"])
    return BayesianModule(model, layout, posterior, prior, likelihood=likelihood, output=output)


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
    """Write `net` (posterior, prior, likelihood, deterministic weights, buffers) to `path`, atomically.

    `notes` are plain values that are kept with it, and read by `read_notes`.
    """
    path = Path(path)
    kept = {} if notes is None else {"notes": notes}
    header = json.dumps({"format": FORMAT, "version": VERSION, **describe(net), **kept})
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in net.state_dict().items()}
    metadata = {"posterity": header, "sha256": _digest(header, tensors)}
    replace_file(path, lambda partial: save_file(tensors, partial, metadata=metadata))


def load(path: str | Path, model: nn.Module, *, output: Output | None = None) -> BayesianModule:
    """The network saved at `path`; `model` gives the architecture and is left as it is.

    A network whose `output` is read by a function needs that function again.
    """
    header, tensors = _read(path)
    dtype = next(tensor.dtype for name, tensor in tensors.items() if name.startswith("posterior."))
    net = rebuild(header, model, output=output).to(dtype)
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise UsageError(f"{path} does not fit this module: {error}") from error
    return net


def read_notes(path: str | Path) -> dict[str, Any]:
    """What was noted with the network at `path`; empty if nothing was."""
    notes: dict[str, Any] = _read(path)[0].get("notes", {})
    return notes


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors, if they are what was written."""
    try:
        with safetensors.safe_open(Path(path), framework="pt") as file:
            metadata = file.metadata()
            header = json.loads(metadata["posterity"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if metadata["sha256"] != _digest(metadata["posterity"], tensors):
            raise ValueError("its contents do not match their SHA-256")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise CorruptFileError(f"{path} is not a network that posterity saved: {error}") from error
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        found = f"{header.get('format')} {header.get('version')}"
        raise CorruptFileError(f"{path} has format {found}; this program reads {FORMAT} {VERSION}")
    return header, tensors


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all that is stored: safetensors itself does not notice altered values."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
