import pytest
import torch
from torch import nn

from posterity.core.errors import UnknownNameError, UsageError
from posterity.models import MODELS, build_model, cnn, lenet5, mlp, perceptron


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
