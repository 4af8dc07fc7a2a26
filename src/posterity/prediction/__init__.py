"""The predictive distribution of a network, and the evaluation of many weight samples together."""

from posterity.prediction.predictive import BATCH_SIZE, DEFAULT_SAMPLES, draw, predict
from posterity.prediction.predictor import Predictor
from posterity.prediction.together import Together, outputs_of

__all__ = ["BATCH_SIZE", "DEFAULT_SAMPLES", "Predictor", "Together", "draw", "outputs_of", "predict"]
