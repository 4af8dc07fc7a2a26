"""The figures of one run and of a comparison of runs, written beside their results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from posterity.experiments import Evaluation, Run
from posterity.likelihoods import ClassPrediction
from posterity.metrics import reliability
from posterity.report.figures import confidence_histograms, reliability_diagram, save, training_curves, tuning_curves
from posterity.training.history import Record, read_history


def write_training_figure(run_path: Path) -> Path:
    """Curves of nll, kl and accuracy or rmse by epoch; where YellowFin was at work, of its tuning, too."""
    place, history = run_path / "figures" / "training.png", read_history(run_path / "history.jsonl")
    config = run_path / "config.toml"
    # A run standardises the targets of a regression; classes it does not.
    standardised = any("rmse" in record for record in history)
    point = config.exists() and Run.read(config).posterior == "point"
    save(training_curves(history, standardised=standardised, point=point), place)
    for name, records in _tunings(history).items():
        save(tuning_curves(records), place.with_name(name))
    return place


def _tunings(history: list[Record]) -> dict[str, list[Record]]:
    """By figure, YellowFin's measurements and their epochs: one tuner, or one for each of some groups."""
    found: dict[str, list[Record]] = {}
    for record in history:
        tuned = {name: group["yellowfin"] for name, group in record.get("groups", {}).items() if "yellowfin" in group}
        for number, (name, measured) in enumerate(tuned.items()):
            place = f"yellowfin-{name}.png" if number else "yellowfin.png"
            found.setdefault(place, []).append({"epoch": record["epoch"], **measured})
    return found


def write_evaluation_figures(folder: Path, evaluations: Mapping[str, Evaluation]) -> list[Path]:
    """Reliability diagrams and confidences side by side; none for regression."""
    classes = {n: e for n, e in evaluations.items() if isinstance(e.prediction, ClassPrediction)}
    if not classes:
        return []
    tables = {n: reliability(e.prediction.mean, e.targets.long()) for n, e in classes.items()}
    save(reliability_diagram(tables), folder / "reliability.png")
    confidences: dict[str, dict[str, Tensor]] = {}
    for name, evaluation in classes.items():
        confidences[name] = {"test": evaluation.prediction.confidence, **evaluation.shifted_confidence}
    save(confidence_histograms(confidences), folder / "confidence.png")
    return [folder / "reliability.png", folder / "confidence.png"]
