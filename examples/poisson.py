"""Poisson regression: counts whose rate a network predicts, with intervals that say how sure it is."""

import argparse

import torch
from torch import nn

import posterity as pt


def main(epochs: int) -> None:
    torch.manual_seed(0)
    x = 4 * torch.rand(500, 1) - 2
    counts = torch.poisson((1.5 + torch.sin(2 * x[:, 0])).exp()).long()  # integers: the likelihood takes them as counts

    model = nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 1))  # gives the logarithm of the rate
    net = pt.bayesian(model, prior=pt.Gaussian(1.0))
    pt.fit(net, (x, counts), likelihood=pt.Poisson(), epochs=epochs, lr=1e-2, batch_size=100)

    for place in (-1.0, 0.0, 1.0, 4.0):
        prediction = net.predict(torch.tensor([[place]]), seed=0)
        low, high = (int(end.item()) for end in prediction.interval(0.9))
        rate = (1.5 + torch.sin(torch.tensor(2 * place))).exp().item()
        noise, spread = prediction.aleatoric.sqrt().item(), prediction.epistemic.sqrt().item()
        print(
            f"x = {place:4}: true rate {rate:5.2f}, predicted {prediction.mean.item():5.2f}, 90 % between {low} and "
            f"{high} (sd of the counts {noise:.2f}, of the rate {spread:.2f})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    main(parser.parse_args().epochs)
