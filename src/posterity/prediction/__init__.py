"""The predictive distribution of a network, and the evaluation of many weight samples together."""

from posterity.prediction.predictive import BATCH_SIZE, DEFAULT_SAMPLES, draw, predict
from posterity.prediction.together import Together, outputs_of

__all__ = ["BATCH_SIZE", "DEFAULT_SAMPLES", "Together", "draw", "outputs_of", "predict"]
