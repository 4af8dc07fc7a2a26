"""How a forward pass is made random.

sample     one weight sample for the whole batch (BayesianModule.outputs)
local      noise on each linear map's output (local reparameterisation)
flipout    one weight sample, its signs flipped for each example
"""

from posterity.estimators.flipout import Flipout
from posterity.estimators.interception import Rule
from posterity.estimators.local import Local
from posterity.estimators.passes import random_outputs

SAMPLE = "sample"
LINEAR_RULES: dict[str, Rule] = {"local": Local(), "flipout": Flipout()}
ESTIMATORS = (SAMPLE, *LINEAR_RULES)

__all__ = ["ESTIMATORS", "LINEAR_RULES", "SAMPLE", "Flipout", "Local", "Rule", "random_outputs"]
