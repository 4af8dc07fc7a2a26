"""Other people's tools."""

from posterity.integrations.export import export, exported
from posterity.integrations.tensorboard import TensorBoard

__all__ = ["TensorBoard", "export", "exported"]
