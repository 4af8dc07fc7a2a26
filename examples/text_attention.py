"""A text classifier with embeddings and attention, trained through a DataLoader that pads each batch for itself.

The texts are made here: reviews of films, some kind, some not, some with a "not" that turns the next word around.
"""

import argparse
import random

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import posterity as pt

KIND, UNKIND = ["good", "great", "lovely", "clever", "fine"], ["bad", "dull", "poor", "silly", "weak"]
OTHERS = [
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "and",
    "was",
    "with",
    "some",
    "of",
    "this",
    "we",
    "saw",
    "music",
]
WORDS = ["<pad>", "not", *KIND, *UNKIND, *OTHERS]
NUMBER = {word: number for number, word in enumerate(WORDS)}


def review(rng: random.Random) -> tuple[str, int]:
    """A text and whether it is kind."""
    kind, turned = rng.random() < 0.5, rng.random() < 0.3
    verdict = rng.choice(KIND if kind != turned else UNKIND)
    before, after = (rng.choices(OTHERS, k=rng.randint(1, 6)) for _ in range(2))
    return " ".join([*before, *(["not"] if turned else []), verdict, *after]), int(kind)


class Reviews(Dataset[tuple[str, int]]):
    def __init__(self, count: int, seed: int) -> None:
        rng = random.Random(seed)
        self.rows = [review(rng) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[str, int]:
        return self.rows[row]


def tokens_of(texts: list[str]) -> dict[str, Tensor]:
    """The arguments of the network, padded to the longest text."""
    rows = [torch.tensor([NUMBER[word] for word in text.split()]) for text in texts]
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"tokens": tokens, "mask": tokens == NUMBER["<pad>"]}


def collate(rows: list[tuple[str, int]]) -> tuple[dict[str, Tensor], Tensor]:
    texts, labels = zip(*rows, strict=True)
    return tokens_of(list(texts)), torch.tensor(labels)


class Attention(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), width)
        self.places = nn.Embedding(32, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        x = x + self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]
        x = self.head[1](self.head[0](x)).masked_fill(mask.unsqueeze(-1), 0.0).sum(1)
        logits: Tensor = self.head[2](x)
        return logits


def main(epochs: int, rows: int) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(Reviews(rows, seed=0), 32, shuffle=True, collate_fn=collate, generator=generator)
    net = pt.bayesian(Attention(), seed=0)
    result = pt.fit(net, loader, epochs=epochs, lr=1e-2)
    print(result)

    texts, labels = zip(*Reviews(300, seed=1).rows, strict=True)
    prediction = net.predict(tokens_of(list(texts)), seed=0)
    accuracy = (prediction.label == torch.tensor(labels)).double().mean().item()
    print(f"new reviews: accuracy {accuracy:.1%}")
    for text in ("this film was great", "this film was not great", "the music of the actor"):
        one = net.predict(tokens_of([text]), seed=0)
        print(f"{text:28} kind: {one.mean[0, 1].item():.2f}, of which unsure by {one.epistemic.item():.3f} nats")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--rows", type=int, default=1000)
    main(**vars(parser.parse_args()))
