import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from posterity.core.layout import Layout

# module, weight's name, (n_in, n_out) by hand
FANS = {
    "linear": (nn.Linear(3, 5), "weight", (3, 5)),
    "linear bias": (nn.Linear(3, 5), "bias", (3, 5)),
    "bilinear": (nn.Bilinear(2, 3, 5), "bias", (6, 15)),
    "conv1d": (nn.Conv1d(4, 6, 3), "weight", (12, 18)),
    "conv1d groups": (nn.Conv1d(4, 6, 3, groups=2), "weight", (6, 9)),
    "conv2d": (nn.Conv2d(3, 8, (2, 5)), "weight", (30, 80)),
    "conv2d bias": (nn.Conv2d(3, 8, (2, 5)), "bias", (30, 80)),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4), "weight", (9, 9)),
    "conv3d groups": (nn.Conv3d(4, 6, 2, groups=2), "weight", (16, 24)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3), "weight", (36, 54)),
    "transposed groups": (nn.ConvTranspose2d(4, 6, 3, groups=2), "weight", (18, 27)),
    "transposed bias": (nn.ConvTranspose1d(4, 6, 3, groups=2), "bias", (6, 9)),
    "embedding": (nn.Embedding(10, 4), "weight", (1, 4)),
    "embedding bag": (nn.EmbeddingBag(10, 4), "weight", (1, 4)),
    "lstm input": (nn.LSTM(3, 5), "weight_ih_l0", (3, 20)),
    "lstm input bias": (nn.LSTM(3, 5), "bias_ih_l0", (3, 20)),
    "lstm recurrent": (nn.LSTM(3, 5), "weight_hh_l0", (5, 20)),
    "lstm recurrent bias": (nn.LSTM(3, 5), "bias_hh_l0", (5, 20)),
    "gru second layer": (nn.GRU(3, 5, num_layers=2, bidirectional=True), "weight_ih_l1_reverse", (10, 15)),
    "attention": (nn.MultiheadAttention(4, 2), "in_proj_weight", (4, 12)),
    "attention bias": (nn.MultiheadAttention(4, 2), "in_proj_bias", (4, 12)),
    "attention out": (nn.MultiheadAttention(4, 2), "out_proj.weight", (4, 4)),
    "attention key": (nn.MultiheadAttention(4, 2, kdim=6, vdim=8), "k_proj_weight", (6, 4)),
    "attention added key": (nn.MultiheadAttention(4, 2, add_bias_kv=True), "bias_k", (4, 4)),
    "batch norm": (nn.BatchNorm2d(7), "weight", (1, 1)),
    "group norm": (nn.GroupNorm(2, 6), "bias", (1, 1)),
    "layer norm": (nn.LayerNorm(7), "weight", (1, 1)),
    "layer norm of images": (nn.LayerNorm((3, 4, 4)), "weight", (1, 1)),
    "layer norm's shift": (nn.LayerNorm((4, 4)), "bias", (1, 1)),
    "rms norm": (nn.RMSNorm((4, 4)), "weight", (1, 1)),
    "prelu": (nn.PReLU(3), "weight", (1, 1)),
    "weight norm's bias": (parametrizations.weight_norm(nn.Linear(3, 5)), "bias", (3, 5)),
    "weight norm's direction": (
        parametrizations.weight_norm(nn.Linear(3, 5)), "parametrizations.weight.original1", (3, 5)
    ),
    "parameter list": (nn.ParameterList([torch.zeros(3, 4)]), "0", (4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", FANS)
def test_fans(case):
    module, name, fans = FANS[case]
    entry = {e.name: e for e in Layout.of(module).entries}[name]
    assert (entry.fan_in, entry.fan_out) == fans


def test_bias_has_its_own_layers_fans():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    assert [e.fan_in for e in Layout.of(model).entries] == [3, 3, 5, 5]
    assert [e.fan_in for e in Layout.of(model, "*.bias").entries] == [3, 5]


def test_bias_of_attention_with_other_key_sizes():
    layout = Layout.of(nn.MultiheadAttention(4, 2, kdim=6, vdim=8))
    entry = {e.name: e for e in layout.entries}["in_proj_bias"]
    assert entry.fan_in == 4
