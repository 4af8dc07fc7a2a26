import pytest
import torch
from torch import nn

from posterity.core.errors import UnknownNameError, UsageError
from posterity.models import (
    MODELS,
    MeanFieldNet,
    build_model,
    check_model_options,
    cnn,
    lenet5,
    mean_field,
    mlp,
    model_options,
    perceptron,
)


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("lenet5", (1, 8, 8)),
        ("lenet5", (1, 28, 28)),
        ("lenet5", (3, 32, 32)),
        ("cnn", (1, 4, 4)),
        ("cnn", (3, 9, 13)),
        ("cnn", (1, 28, 28)),
        ("mlp", (7,)),
        ("mlp", (2, 3, 4)),
        ("perceptron", (2,)),
        ("perceptron", (2, 2)),
    ],
)
@pytest.mark.parametrize("outputs", [1, 10])
def test_output_shapes(name, shape, outputs):
    model = build_model(name, shape, outputs)
    x = torch.randn(3, *shape)
    out = model(x)
    assert out.shape == (3, outputs)
    assert torch.isfinite(out).all()
    assert type(model) is nn.Sequential


def test_every_model_is_built_by_name():
    for name in MODELS:
        assert build_model(name, (1, 8, 8), 3)(torch.zeros(1, 1, 8, 8)).shape == (1, 3)


def test_lenet5_has_the_published_size():
    # (25 + 1) 6 + (6 25 + 1) 16 + (400 + 1) 120 + (120 + 1) 84 + (84 + 1) 10
    assert count(lenet5((1, 28, 28), 10)) == 61_706
    assert count(lenet5((1, 32, 32), 10)) == 61_706
    assert count(lenet5((3, 32, 32), 10)) == 61_706 + 2 * 25 * 6
    assert count(lenet5((1, 8, 8), 10)) == 156 + 880 + 65 * 120 + 121 * 84 + 850


def test_other_sizes_by_hand():
    assert count(mlp((3,), 2, hidden=(4, 5))) == 16 + 25 + 12
    assert count(mlp((3,), 2, hidden=())) == 8
    assert count(cnn((1, 8, 8), 2, width=1)) == 10 + (9 + 1) * 2 + (32 + 1) * 4 + (4 + 1) * 2
    assert count(perceptron((2,))) == 3


def test_mlp_by_hand():
    model = mlp((2,), 1, hidden=(1,), activation="tanh")
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), (0.5, 0.1, 2.0, -1.0), strict=True):
            parameter.fill_(value)
    expected = 2 * torch.tanh(torch.tensor(0.5 * 3 + 0.1)) - 1
    torch.testing.assert_close(model(torch.tensor([[1.0, 2.0]])), expected.view(1, 1))


def test_mean_field_by_hand():
    model = mean_field((2,), 2, hidden=(3,))
    b = torch.tensor([[1.0, 0.0], [0.0, -1.0], [2.0, 1.0]])
    a = torch.tensor([[1.0, 5.0, -1.0], [3.0, 7.0, 2.0]])
    with torch.no_grad():
        model.inner.weight.copy_(b)
        model.outer.weight.copy_(a)
    # act(b.x) = 1, 0 (b.x = -2), 4, so f = (1 - 4, 3 + 8) / 3.
    torch.testing.assert_close(model(torch.tensor([[1.0, 2.0]])), torch.tensor([[-1.0, 11 / 3]]))


def test_mean_field_of_doubled_neurons_is_the_same():
    torch.manual_seed(0)
    model, double = (
        mean_field((5,), 3, hidden=(4,), activation="tanh"),
        mean_field((5,), 3, hidden=(8,), activation="tanh"),
    )
    with torch.no_grad():
        double.inner.weight.copy_(model.inner.weight.repeat(2, 1))
        double.outer.weight.copy_(model.outer.weight.repeat(1, 2))
    x = torch.randn(6, 5)
    torch.testing.assert_close(double(x), model(x))


def test_mean_field_starts_with_variance_one_fifth_at_every_width():
    torch.manual_seed(0)
    x = torch.randn(1, 20)
    for width in (100, 1600):
        model = mean_field((20,), 500, hidden=(width,))
        assert isinstance(model, MeanFieldNet)
        assert model.inner.bias is model.outer.bias is None
        for weight in model.parameters():
            assert weight.var().item() == pytest.approx(0.2, rel=0.1)
        # Var f = E[a^2] E[relu(b.x)^2] / N = (1/5) (|x|^2 / 10) / N, over the 500 outputs (given b).
        expected = 0.2 * x.square().sum().item() / 10 / width
        assert model(x).var().item() == pytest.approx(expected, rel=0.3)


def test_perceptron_solves_and():
    model = perceptron((2,))
    with torch.no_grad():
        model[1].weight.fill_(1.0)
        model[1].bias.fill_(-1.0)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert torch.sigmoid(model(x)).squeeze(-1).tolist() == pytest.approx([0.001, 0.001, 0.001, 0.999])
    half = torch.sigmoid(model(torch.tensor([[0.75, 0.75]])))
    assert half.item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("lenet5", (1, 16, 16), {}),
        ("lenet5", (1, 28, 32), {}),
        ("lenet5", (784,), {}),
        ("cnn", (1, 3, 8), {}),
        ("cnn", (64,), {}),
        ("mlp", (3,), {"hidden": (4, 0)}),
        ("mlp", (3,), {"width": 3}),
        ("lenet5", (1, 28, 28), {"hidden": (3,)}),
        ("mean-field", (3,), {"hidden": (3, 3)}),
        ("mean-field", (3,), {"hidden": (0,)}),
        ("mean-field", (3,), {"activation": "rely"}),
    ],
)
def test_wrong_shapes_and_options(name, shape, options):
    with pytest.raises(UsageError):
        build_model(name, shape, 2, **options)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'lenet5'"):
        build_model("lenet", (1, 28, 28), 10)
    with pytest.raises(UnknownNameError, match="Did you mean 'relu'"):
        mlp((3,), 2, activation="rely")


def test_options_by_name():
    assert model_options("mlp") == {"hidden": (400, 400), "activation": "relu"}
    assert model_options("cnn") == {"width": 32}
    assert model_options("lenet5") == {}
    for name in MODELS:
        check_model_options(name, model_options(name))
    with pytest.raises(UnknownNameError, match=r"unknown option of model 'mlp' 'hiden'.*Did you mean 'hidden'"):
        build_model("mlp", (3,), 2, hiden=(3,))
    with pytest.raises(UsageError, match="model 'lenet5' takes no options, but was given width"):
        build_model("lenet5", (1, 28, 28), 2, width=3)
    with pytest.raises(UsageError, match="option hidden of model 'mlp' takes numbers such as 400:400, not 8"):
        check_model_options("mlp", {"hidden": 8})
    with pytest.raises(UnknownNameError, match="Did you mean 'lenet5'"):
        model_options("lenet")
