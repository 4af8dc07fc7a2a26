"""A Bayesian last layer on a frozen body: what was trained before stays as it is, also the batch norms' statistics."""

import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt


def pretrained(x: torch.Tensor, y: torch.Tensor, steps: int) -> nn.Sequential:
    """A plain network, trained in the plain way; in earnest it would come from elsewhere."""
    body = nn.Sequential(
        nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU()
    )
    model = nn.Sequential(body, nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def main(epochs: int, steps: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = pretrained(x, y, steps)
    body, head = model[0], model[1]
    body.requires_grad_(False)  # frozen: not trained, and in eval mode while the rest is trained
    before = copy.deepcopy(body.state_dict())

    net = pt.bayesian(model, select=[head], seed=0)
    print(pt.fit(net, (x, y), epochs=epochs))
    after = net.model.get_submodule("0").state_dict()
    print("the body is unchanged:", all(torch.equal(before[name], after[name]) for name in before))

    near, far = net.predict(x, seed=0), net.predict(8 * torch.randn(400, 2), seed=0)
    print(f"epistemic uncertainty: {near.epistemic.mean():.4f} nats near the data, {far.epistemic.mean():.4f} far away")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=300)
    main(**vars(parser.parse_args()))
