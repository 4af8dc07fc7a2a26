"""Nested state (dicts, lists, numbers, tensors) as named tensors plus JSON, and back; nothing executable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor


def pack(tree: Any) -> tuple[dict[str, Tensor], str]:
    """(tensors by path, JSON of the rest)."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            # A copy of its own: safetensors refuses tensors that share memory.
            if path in tensors:  # keys such as "a.b" beside "a": {"b": ...}, or 1 beside "1"
                path = f"{path}#{len(tensors)}"
            tensors[path] = node.detach().cpu().contiguous().clone()
            return {"tensor": path}
        if isinstance(node, Mapping):
            return {"map": [[key, walk(value, f"{path}.{key}")] for key, value in node.items()]}
        if isinstance(node, (list, tuple)):
            kind = "tuple" if isinstance(node, tuple) else "list"
            return {kind: [walk(value, f"{path}.{i}") for i, value in enumerate(node)]}
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        raise TypeError(f"cannot store a {type(node).__name__} at {path}")

    skeleton = walk(tree, "state")
    return tensors, json.dumps(skeleton)


def unpack(tensors: Mapping[str, Tensor], skeleton: str) -> Any:
    """The inverse of `pack`."""

    def walk(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "map":
            return {key: walk(value) for key, value in content}
        values = [walk(value) for value in content]
        return tuple(values) if kind == "tuple" else values

    return walk(json.loads(skeleton))
