"""Reports: figures of a run and of comparisons between runs."""

from posterity.report.figures import (
    confidence_histograms,
    regression_band,
    reliability_diagram,
    save,
    training_curves,
)

__all__ = ["confidence_histograms", "regression_band", "reliability_diagram", "save", "training_curves"]
