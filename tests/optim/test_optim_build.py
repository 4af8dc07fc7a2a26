import pytest
import torch
from torch import nn

from posterity.core.errors import UnknownNameError, UsageError
from posterity.optim import OPTIMIZERS, build_optimizer, check_optimizer_options, optimizer_options


def group(*values):
    return [{"params": [nn.Parameter(torch.tensor(v)) for v in values]}]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_default_rate(name):
    needed = dict.fromkeys(OPTIMIZERS[name].needs, 10)
    assert build_optimizer(name, group([1.0]), **needed).param_groups[0]["lr"] == OPTIMIZERS[name].lr


def test_sgd_by_hand():
    groups = group([1.0])
    parameter = groups[0]["params"][0]
    optimizer = build_optimizer("sgd", groups, lr=0.1)
    for expected in (0.8, 0.8 - 0.1 * (0.9 * 2 + 1.6)):  # g = 2 w; momentum 0.9
        parameter.grad = 2 * parameter.detach()
        optimizer.step()
        assert parameter.item() == pytest.approx(expected)


def test_first_adam_step_is_the_rate():
    for name in ("adam", "amsgrad"):
        groups = group([1.0, -1.0])
        parameter = groups[0]["params"][0]
        parameter.grad = torch.tensor([1e-3, -50.0])
        build_optimizer(name, groups, lr=0.1).step()
        assert parameter.tolist() == pytest.approx([0.9, -0.9], abs=1e-5)


def test_settings_and_groups_of_their_own():
    groups = [*group([1.0]), {**group([2.0])[0], "lr": 0.5}]
    optimizer = build_optimizer("sgd", groups, lr=0.1, momentum=0.0)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5]
    assert all(g["momentum"] == 0 for g in optimizer.param_groups)


@pytest.mark.parametrize("lr", [0.0, -1e-3, float("nan")])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rates_that_are_not_positive(name, lr):
    with pytest.raises(UsageError, match="learning rate must be positive"):
        build_optimizer(name, group([1.0]), lr=lr)


def test_unknown_names_and_settings():
    with pytest.raises(UnknownNameError, match="Did you mean 'adam'"):
        build_optimizer("adm", group([1.0]))
    with pytest.raises(UsageError, match="optimizer 'adam'"):
        build_optimizer("adam", group([1.0]), warmth=3)
    with pytest.raises(UsageError, match="optimizer 'adam'"):
        build_optimizer("adam", group([1.0]), betas=(2.0, 0.9))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_options_by_signature(name):
    options = optimizer_options(name)
    assert not {"self", "params", "lr"} & set(options)
    assert set(OPTIMIZERS[name].settings) | set(OPTIMIZERS[name].needs) <= set(options)
    for key, value in OPTIMIZERS[name].settings.items():
        assert options[key] == value
    check_optimizer_options(name, {k: v for k, v in options.items() if v is not None})


def test_options_are_checked_without_building_anything(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("built")

    monkeypatch.setattr(torch.nn, "Parameter", refuse)
    check_optimizer_options("adabayes", {"batch_size": 3, "betas": (0.8, 0.9)})
    for name, options, message in (
        ("adm", {}, "Did you mean 'adam'"),
        ("adam", {"beta": (0.1, 0.2)}, "Did you mean 'betas'"),
        ("sgd", {"nesterov": 1}, "true or false"),
        ("adabayes", {"batch_size": "all"}, "takes a whole number, not 'all'"),
        ("adam", {"capturable": "yes"}, "true or false, such as false, not 'yes'"),
    ):
        with pytest.raises(UsageError, match=message):
            check_optimizer_options(name, options)
