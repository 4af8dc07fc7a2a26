"""Your own training loop: a Bayesian network from a plain module, trained with three changed lines."""

import argparse

import torch
from torch import nn

import posterity as pt


def main(steps: int) -> None:
    torch.manual_seed(0)
    x = torch.linspace(-2, 2, 200).unsqueeze(1)
    y = torch.sin(3 * x) + 0.1 * torch.randn_like(x)

    model = nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 1))
    likelihood = pt.GaussianNoise(0.1)
    net = pt.bayesian(model, prior=pt.Gaussian(1.0), rho=-4.0, likelihood=likelihood)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = pt.negative_elbo(net, likelihood, x, y, num_data=len(x))
        loss.backward()
        if step % max(1, steps // 5) == 0:
            print(f"step {step}: loss {loss.item():.3f}  nll {loss.nll.item():.3f}  kl {loss.kl.item():.1f}")
        optimizer.step()

    prediction = net.predict(torch.tensor([[0.0], [4.0]]))
    inside, outside = prediction.epistemic.sqrt().flatten().tolist()
    print(f"epistemic sd at x = 0 (data): {inside:.3f}, at x = 4 (no data): {outside:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    main(parser.parse_args().steps)
