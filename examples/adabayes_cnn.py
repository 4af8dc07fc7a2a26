"""AdaBayes-FP on a plain convolutional network: our optimisers need nothing else of this library."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from posterity.optim import AdaBayesFP


def digits() -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    return x, torch.tensor(labels, dtype=torch.long)


def main(epochs: int) -> None:
    torch.manual_seed(0)
    x, y = digits()
    train, test = torch.randperm(len(x)).split([1500, len(x) - 1500])

    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )
    # lr is the rate where gradients are large (Adam's), lr_sgd where they are small (SGD's).
    optimizer = AdaBayesFP(model.parameters(), lr=5e-3, lr_sgd=1.0, weight_decay=5e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in train[torch.randperm(len(train))].split(50):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        with torch.no_grad():
            accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
        print(f"epoch {epoch}: loss {total / len(train):.3f}  test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args().epochs)
