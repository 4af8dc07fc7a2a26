"""Nested states as tensors plus JSON: nothing is lost, mixed up or executed."""

import pytest
import torch

from posterity.storage.tree import pack, unpack


def test_tree_keeps_types_and_apart_what_has_similar_names(same):
    tree = {
        "a.b": torch.tensor(1.0),
        "a": {"b": torch.tensor(2.0)},
        1: torch.tensor([3], dtype=torch.int64),
        "1": torch.tensor([True]),
        "odd": [float("inf"), -0.0, 2**70, "ü", None, (), [], {}, torch.zeros(0, 3)],
        "shared": [shared := torch.ones(3), shared[1:]],
    }
    assert same(unpack(*pack(tree)), tree)
    with pytest.raises(TypeError, match=r"set at state\.x"):
        pack({"x": {1, 2}})
