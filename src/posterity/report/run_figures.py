"""The figures of a run and of several beside each other, drawn from what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posterity.experiments import Record
from posterity.metrics import reliability
from posterity.posteriors import POSTERIORS
from posterity.report.figures import confidence_histograms, reliability_diagram, save, training_curves, tuning_curves
from posterity.storage import EpochRecord


def write_figures(record: Record) -> list[Path]:
    """All figures of one run, in its folder."""
    folder = record.folder / "figures"
    return [*write_training_figures(record), *write_evaluation_figures(folder, {record.run.network_name: record})]


def write_training_figures(record: Record) -> list[Path]:
    """Curves of nll, kl and accuracy or rmse by epoch; where an optimiser tunes itself, of its tuning, too."""
    place = record.folder / "figures" / "training.png"
    # A run standardises the targets of a regression; classes it does not.
    standardised = any("rmse" in epoch for epoch in record.history)
    point = not POSTERIORS[record.run.posterior].random
    save(training_curves(record.history, standardised=standardised, point=point), place)
    tunings = _tunings(record.history)
    for name, epochs in tunings.items():
        save(tuning_curves(epochs), place.with_name(name))
    return [place, *(place.with_name(name) for name in tunings)]


def _tunings(history: list[EpochRecord]) -> dict[str, list[EpochRecord]]:
    """By figure, a tuner's measurements and their epochs: one tuner, or one for each of some groups."""
    found: dict[str, list[EpochRecord]] = {}
    for record in history:
        tuned = {name: group["tuning"] for name, group in record.get("groups", {}).items() if "tuning" in group}
        for number, (name, measured) in enumerate(tuned.items()):
            place = f"tuning-{name}.png" if number else "tuning.png"
            member = {"member": record["member"]} if "member" in record else {}
            found.setdefault(place, []).append({"epoch": record["epoch"], **member, **measured})
    return found


def write_evaluation_figures(folder: Path, records: Mapping[str, Record]) -> list[Path]:
    """Reliability diagrams and confidences of runs, and of their averages, side by side; none for regression."""
    tables, confidences = {}, {}
    for label, record in records.items():
        for network, by_data in record.predictions.items():
            name = label if network == "last" else f"{label}, {network}"
            test = by_data["test"]
            if "confidence" not in test:
                continue
            tables[name] = reliability(test["mean"], test["targets"].long())
            confidences[name] = {data: found["confidence"] for data, found in by_data.items()}
    if not tables:
        return []
    save(reliability_diagram(tables), folder / "reliability.png")
    save(confidence_histograms(confidences), folder / "confidence.png")
    return [folder / "reliability.png", folder / "confidence.png"]
