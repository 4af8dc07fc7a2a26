"""Langevin dynamics through `fit`."""

import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError


def test_its_samples_have_the_exact_posteriors_means_and_covariance(conjugate):
    settings = {"epochs": 2500, "schedule": "constant", "average_start": 0.1, "average_every": 3, "temperature": 0.5}
    net = conjugate.network(posterior="point")
    samples = conjugate.train(net, optimizer="sgld", lr=7e-4, **settings).averaged.posterior
    assert samples.kind == "samples"
    assert len(samples.weights) == 750
    mean, precision = conjugate.exact(0.5)
    covariance = torch.linalg.inv(precision)
    sd = covariance.diagonal().sqrt()
    assert ((samples.mean - mean).abs() / sd).max() < 0.3
    found = torch.cov(samples.weights.T)
    assert ((found - covariance).abs() / torch.outer(sd, sd)).max() < 0.3


@pytest.mark.parametrize("name", ["sgld", "psgld"])
def test_resumes_to_the_last_bit(check_resumption, conjugate, tmp_path, name):
    settings = {"optimizer": name, "epochs": 5, "batch_size": 10, "average_start": 0.3, "average_every": 2}

    def network():
        return conjugate.network(posterior="point")

    whole = check_resumption(network, conjugate.data, 11, tmp_path / "run", **settings)
    assert len(whole.averaged.posterior.weights) == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kl_decay": 0.5}, "kl_decay must be 1"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"optimizer_options": {"momentum": 0.9}}, "unknown option of optimizer 'sgld' 'momentum'"),
        ({"optimizer_options": {"lr": 0.9}}, "unknown option of optimizer 'sgld' 'lr'"),
        ({"lr_ratio": 0.1}, "does not train by themselves"),
        ({"average_restart": True}, "samples are kept as they are"),
    ],
)
def test_what_it_cannot_do_is_refused(conjugate, tmp_path, settings, message):
    net = conjugate.network(posterior="point")
    with pytest.raises(UsageError, match=message):
        pt.fit(net, conjugate.data, epochs=1, optimizer="sgld", out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_it_needs_a_point_to_move(conjugate):
    with pytest.raises(UsageError, match="posterior 'point', not 'mean_field'"):
        pt.fit(conjugate.network(), conjugate.data, epochs=1, optimizer="sgld")
