"""Other people's tools."""

from posterity.integrations.tensorboard import TensorBoard

__all__ = ["TensorBoard"]
