"""What is kept on disk: run directories, checkpoints, histories, networks. Written atomically, verified when read."""

from posterity.storage.atomic import merge_json, read_json, replace_file, write_text
from posterity.storage.checkpoint import Checkpoints, CheckpointWarning
from posterity.storage.directory import RunDirectory
from posterity.storage.history import EpochRecord, History, in_short, read_history
from posterity.storage.network import describe, load, network_like, network_state, read_notes, rebuild, save
from posterity.storage.predictor import load_predictor, save_predictor
from posterity.storage.table import flat, write_table

__all__ = [
    "CheckpointWarning",
    "Checkpoints",
    "EpochRecord",
    "History",
    "RunDirectory",
    "describe",
    "flat",
    "in_short",
    "load",
    "load_predictor",
    "merge_json",
    "network_like",
    "network_state",
    "read_history",
    "read_json",
    "read_notes",
    "rebuild",
    "replace_file",
    "save",
    "save_predictor",
    "write_table",
    "write_text",
]
