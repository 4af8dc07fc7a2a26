"""Save and load a predictor: one file with its draws, deterministic weights, likelihood, standardisation and labels.

The architecture itself is code and is not stored: `load_predictor` takes a module of the same architecture.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from posterity.core.errors import CorruptFileError, UsageError
from posterity.core.hosting import Host
from posterity.core.reading import Output, described, read_by, restored
from posterity.data import Standardisation
from posterity.likelihoods import Likelihood, build_likelihood, place_of
from posterity.prediction import Predictor
from posterity.storage.network import layout_of
from posterity.storage.sealed import Sealed

FILE = Sealed("posterity-predictor", 1, what="a predictor that posterity saved")


def save_predictor(predictor: Predictor, path: str | Path) -> None:
    """Write `predictor` to `path`, atomically."""
    likelihood, standardisation = predictor.likelihood, predictor.standardisation
    description = {
        "weights": {entry.name: list(entry.shape) for entry in predictor.layout.entries},
        "likelihood": {"kind": place_of(type(likelihood)), **likelihood.options()},
        "output": described(predictor.output),
        "origin": {"family": predictor.family, "seed": predictor.seed, "mean_weights": predictor.mean_weights},
        "labels": None if predictor.labels is None else list(predictor.labels),
        "standardised": standardisation is not None,
    }
    tensors = {
        "weights": predictor.weights,
        **_prefixed("model", predictor.host.model.state_dict()),
        **_prefixed("likelihood", likelihood.state_dict()),
        **_prefixed("standardisation", {} if standardisation is None else standardisation.state()),
    }
    FILE.write(Path(path), description, tensors)


def load_predictor(
    path: str | Path,
    model: nn.Module,
    *,
    likelihood: type[Likelihood] | None = None,
    output: Output | None = None,
) -> Predictor:
    """The predictor saved at `path`; `model` gives the architecture and is left as it is.

    The class of a `likelihood` of your own and an `output` that is a function are given as to `load`.
    """
    header, tensors = FILE.read(Path(path))
    output = restored(header.get("output"), output)
    model = copy.deepcopy(model)
    read_by(model, output)
    try:
        layout = layout_of(header["weights"], model)
        host = Host.of(model.to(tensors["weights"].dtype).eval(), layout.names)
        observed = build_likelihood(given=likelihood, **header["likelihood"]).to(tensors["weights"].dtype).eval()
        known = Standardisation.from_state(_named("standardisation", tensors)) if header["standardised"] else None
        made = Predictor(
            host,
            layout,
            tensors["weights"],
            observed,
            **header["origin"],
            standardisation=known,
            labels=header["labels"],
            output=output,
        )
    except (KeyError, TypeError) as error:
        raise CorruptFileError(f"{path} does not describe a predictor: {error!r}") from error
    try:
        model.load_state_dict(_named("model", tensors))
        observed.load_state_dict(_named("likelihood", tensors))
    except RuntimeError as error:
        raise UsageError(f"{path} does not fit this module: {error}") from error
    for part in (model, observed):
        part.requires_grad_(False)
    return made


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inverse of `_prefixed`."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}
