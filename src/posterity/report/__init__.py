"""Reports: figures of a run and of comparisons between runs."""

from posterity.report.compare_figure import compare_figure
from posterity.report.figures import (
    confidence_histograms,
    regression_band,
    reliability_diagram,
    save,
    training_curves,
    tuning_curves,
)
from posterity.report.landscape_figure import landscape_figure
from posterity.report.penalty_figure import penalty_figure
from posterity.report.range_figure import range_figure
from posterity.report.run_figures import write_evaluation_figures, write_figures, write_training_figures
from posterity.report.variance_figure import variance_bars

__all__ = [
    "compare_figure",
    "confidence_histograms",
    "landscape_figure",
    "penalty_figure",
    "range_figure",
    "regression_band",
    "reliability_diagram",
    "save",
    "training_curves",
    "tuning_curves",
    "variance_bars",
    "write_evaluation_figures",
    "write_figures",
    "write_training_figures",
]
