"""Programs for other runtimes: a predictor by `torch.export` (.pt2) or as ONNX, with its uncertainty as outputs.

    inputs (any number of rows)  ->  standardised  ->  S networks  ->  what `prediction.columns()` has, by name

Classes: label, confidence, mean (probabilities), aleatoric, epistemic, total. Real targets: mean, sd, aleatoric_sd,
epistemic_sd, aleatoric, epistemic, total, in the targets' own units.

A program says what it is: `exported(path)` reads from the file whether it holds mean weights or how many frozen draws,
their seed and family, the classes' names and our version. A live network draws weights in every pass, which no program
can: tracing it is refused (core.randomness).

Networks whose S samples fold are one batched program; others, and convolutions, whose folding fixes the number of rows,
are S networks one after the other, a program S times as long. ONNX needs the extra [onnx].
"""

from __future__ import annotations

import json
import logging
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, UsageError, unknown_name
from posterity.prediction import Predictor, Together, outputs_of
from posterity.prediction.predictive import as_tensors
from posterity.storage import replace_file

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.onnx import ONNXProgram

FORMATS = {"pt2": ".pt2", "onnx": ".onnx"}
NOTES = "posterity.json"  # of a .pt2 file, an archive, the entry that says what it is
KEY = "posterity"  # of an ONNX file's metadata
ONNX_LIMIT = 2**31 - 2**20  # bytes: what a file of one piece can hold


class Program(nn.Module):
    """A predictor as one module: from inputs to the columns of its prediction."""

    weight_0: Tensor
    x_mean: Tensor
    x_sd: Tensor
    y_mean: Tensor
    y_sd: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self._host = predictor.host.private()
        self.model = self._host.model
        self.likelihood = predictor.likelihood
        self._layout = predictor.layout
        # A name with dots cannot be a buffer's.
        for place, view in enumerate(predictor.views.values()):
            self.register_buffer(f"weight_{place}", view)
        known = predictor.standardisation
        for name, tensor in ({} if known is None else known.state()).items():
            self.register_buffer(name, tensor)
        self._standardised = known is not None
        self._rescaled = predictor.rescales
        self.together = Together(self.model, frozen=True)
        self.together.folds &= not self.together.convolves
        self.eval()

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """The columns of the prediction at `inputs` (n, ...)."""
        views = {name: getattr(self, f"weight_{place}") for place, name in enumerate(self._layout.names)}
        if self._standardised and self.x_mean.is_floating_point():
            inputs = (inputs - self.x_mean) / self.x_sd
        if inputs.is_floating_point():
            inputs = inputs.to(self.weight_0.dtype)
        outputs = outputs_of(self._host, self._layout, self.together, views, inputs, rewind=False)
        prediction = self.likelihood.predict(outputs)
        return (prediction.rescaled(self.y_mean, self.y_sd) if self._rescaled else prediction).columns()


def export(
    source: Predictor | BayesianModule,
    example: ArrayLike | Tensor,
    path: str | Path | None = None,
    *,
    format: str | None = None,
) -> ExportedProgram | ONNXProgram:
    """A program of `source` for inputs like `example` (n, ...), written to `path` if there is one.

    `format` is "pt2" or "onnx"; by default the path's ending decides. A network is exported with its mean weights,
    which know no epistemic uncertainty: give `net.predictor()` for that.
    """
    format = _format(path, format)
    predictor = source.predictor(None) if isinstance(source, BayesianModule) else source
    if not isinstance(predictor, Predictor):
        raise UsageError(f"export takes a predictor (net.predictor()) or a network, not a {type(source).__name__}")
    rows = as_tensors(example)
    if not isinstance(rows, Tensor):
        raise UsageError("a network of several inputs cannot be exported: wrap it in a module that takes one tensor")
    rows = rows.to(predictor.device)
    predictor(rows)  # refuses what cannot be predicted, before a long export
    notes = description(predictor, rows)
    program = _program(predictor, rows)
    if format == "pt2":
        if path is not None:
            extra = {NOTES: json.dumps(notes)}
            replace_file(Path(path), lambda partial: torch.export.save(program, partial, extra_files=extra))
        return program
    return _as_onnx(program, notes, path)


def description(predictor: Predictor, example: Tensor) -> dict[str, Any]:
    """What a program says of itself."""
    from posterity import __version__

    return {
        "what": predictor.what,
        "mean_weights": predictor.mean_weights,
        "samples": predictor.num_samples,
        "seed": predictor.seed,
        "family": predictor.family,
        "likelihood": predictor.likelihood.kind,
        "classes": None if predictor.labels is None else list(predictor.labels),
        "standardised": predictor.standardisation is not None,
        "input": {"shape": list(example.shape[1:]), "dtype": str(example.dtype).removeprefix("torch.")},
        "posterity": __version__,
        "torch": str(torch.__version__),
    }


def exported(path: str | Path) -> dict[str, Any]:
    """What the program in the file `path` says of itself; nothing of it is executed."""
    path = Path(path)
    if not path.exists():
        raise UsageError(f"there is no file {path}")
    try:
        text = _onnx_notes(path) if _format(path, None) == "onnx" else _pt2_notes(path)
        notes = json.loads(text)
        if not isinstance(notes, dict):
            raise ValueError(f"a {type(notes).__name__} instead of an object")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CorruptFileError(f"{path} is not a program that posterity exported: {error}") from error
    return notes


def _format(path: str | Path | None, format: str | None) -> str:
    endings = {ending: name for name, ending in FORMATS.items()}
    if format is None:
        ending = "" if path is None else Path(path).suffix.lower()
        if ending not in endings:
            raise UsageError(f"give a path that ends in {' or '.join(endings)}, or a format; not {path}")
        return endings[ending]
    if format not in FORMATS:
        raise unknown_name("export format", format, FORMATS)
    return format


def _program(predictor: Predictor, rows: Tensor) -> ExportedProgram:
    """For any number of rows. PyTorch takes one row for a constant: it is shown two."""
    shown = torch.cat([rows[:1], rows[:1]])
    shapes = ({0: torch.export.Dim("rows")},)
    module = Program(predictor)
    with torch.no_grad():
        try:
            return torch.export.export(module, (shown,), dynamic_shapes=shapes)
        except RuntimeError:  # some batching rules fix the number of rows
            if not module.together.folds:
                raise
            module.together.folds = False
            return torch.export.export(module, (shown,), dynamic_shapes=shapes)


def _as_onnx(program: ExportedProgram, notes: Mapping[str, Any], path: str | Path | None) -> ONNXProgram:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{' and '.join(missing)} not installed; install with: pip install 'posterity[onnx]'")
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size > ONNX_LIMIT:
        raise UsageError(f"the weights take {size} bytes and an ONNX file holds 2 GiB: take fewer samples, or pt2")
    import torch.onnx

    names = list(program.call_spec.out_spec.context)
    with _quiet():
        program = program.run_decompositions({torch.ops.aten.hypot.default: _hypot})
        made = torch.onnx.export(
            program, dynamo=True, input_names=["inputs"], output_names=names, dynamic_shapes=None, verbose=False
        )
    assert made is not None
    # An inner value that happens to be called like an output makes a file that no runtime reads.
    outputs = {id(value) for value in made.model.graph.outputs}
    for node in made.model.graph:
        for value in node.outputs:
            if value.name in names and id(value) not in outputs:
                value.name = f"inner_{value.name}"
    made.model.metadata_props[KEY] = json.dumps(dict(notes))
    if path is not None:
        replace_file(Path(path), lambda partial: made.save(partial))
    return made


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    """sqrt(a^2 + b^2) without overflow, which ONNX does not have."""
    largest = torch.maximum(a.abs(), b.abs())
    unit = torch.where(largest > 0, largest, torch.ones_like(largest))
    return unit * ((a / unit).square() + (b / unit).square()).sqrt()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch's exporter says of packages that it does not find, and of its own habits."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _pt2_notes(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if name.endswith(f"/extra/{NOTES}")]
        if len(found) != 1:
            raise KeyError(NOTES)
        return archive.read(found[0]).decode()


def _onnx_notes(path: Path) -> str:
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own kinds of errors
        raise ValueError(error) from error
    return str({entry.key: entry.value for entry in model.metadata_props}[KEY])
