"""Networks of every kind of module, each with an input."""

import torch
from torch import nn
from torch.nn.utils import parametrizations


class First(nn.Module):
    """The first of a module's several results."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


class Unrolled(nn.Module):
    """Two steps of a recurrent cell: the first starts from zero and does not use the recurrent weights."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        return self.cell(x, self.cell(x))


class SelfAttention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, **options)

    def forward(self, x):
        key = x if self.attention._qkv_same_embed_dim else x.repeat(1, 1, 2)
        return self.attention(x, key, key)[0]


class Shared(nn.Module):
    """One linear map used twice, under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first
        self.nested = nn.ModuleDict({"inner": nn.Sequential(nn.Linear(3, 3), self.first)})

    def forward(self, x):
        return self.nested["inner"](torch.tanh(self.again(torch.tanh(self.first(x)))))


class Tied(nn.Module):
    """Embedding and output layer share their weights."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(torch.tanh(self.embedding(x)))


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrices = nn.ParameterList([nn.Parameter(torch.randn(3, 3)) for _ in range(2)])
        self.named = nn.ParameterDict({"scale": nn.Parameter(torch.ones(3))})
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        for matrix in self.matrices:
            x = torch.tanh(x @ matrix)
        return self.gain * self.named["scale"] * x


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU())
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head((x + self.body(x)).mean((-1, -2)))


VECTOR, SERIES, IMAGE, VOLUME = (5, 3), (4, 2, 6), (4, 2, 6, 6), (2, 2, 4, 4, 4)

# name: (make the network, shape of the input or largest index of it)
ARCHITECTURES = {
    "linear": (lambda: nn.Linear(3, 2), VECTOR),
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), VECTOR),
    "prelu": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.PReLU(4), nn.Linear(4, 2)), VECTOR),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(16, 2)), SERIES),
    "conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1, stride=2, groups=2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
        ),
        IMAGE,
    ),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 3, 2, dilation=2), nn.Flatten(), nn.Linear(24, 2)), VOLUME),
    "transposed": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2, groups=2), IMAGE),
    "lstm": (lambda: First(nn.LSTM(6, 3, num_layers=2, bidirectional=True, batch_first=True)), SERIES),
    "projected lstm": (lambda: First(nn.LSTM(6, 4, proj_size=2, batch_first=True)), SERIES),
    "gru": (lambda: First(nn.GRU(6, 3)), SERIES),
    "cell": (Unrolled, VECTOR),
    "attention": (SelfAttention, (3, 5, 4)),
    "attention with other keys": (lambda: SelfAttention(kdim=8, vdim=8, add_bias_kv=True), (3, 5, 4)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, dropout=0.0, batch_first=True), (3, 5, 4)
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(20, 3)), (3, 5)
    ),
    "embedding bag": (lambda: nn.Sequential(nn.EmbeddingBag(6, 4), nn.Linear(4, 3)), (3, 5)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), VECTOR),
    "layer norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)), VECTOR),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 2)), IMAGE
    ),
    "residual": (Residual, IMAGE),
    "shared": (Shared, VECTOR),
    "tied": (Tied, (3, 5)),
    "listed": (Listed, VECTOR),
    "weight norm": (
        lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 2)), VECTOR
    ),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(3, 4)), VECTOR),
}  # fmt: skip
INDEXED = {"embedding", "embedding bag", "tied"}


def make(name):
    """The network and an input for it."""
    torch.manual_seed(0)
    build, shape = ARCHITECTURES[name]
    model = build()
    # Every index occurs, so that every row of an embedding has a part in the output.
    x = torch.arange(15).view(3, 5) % 6 if name in INDEXED else torch.randn(shape)
    return model, x
