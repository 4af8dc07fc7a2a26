from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from posterity.core.errors import CorruptFileError, DataError
from posterity.data import Dataset, Splits, Standardisation


def regression(x, y):
    return Dataset.from_arrays(x, y, "regression")


def test_by_hand():
    data = regression([[1.0, 10.0], [3.0, 10.0]], [0.0, 4.0])
    scale = Standardisation.of(data)
    assert (scale.x_mean.tolist(), scale.x_sd.tolist()) == ([2.0, 10.0], [1.0, 1.0])
    assert (scale.y_mean.tolist(), scale.y_sd.tolist()) == ([2.0], [2.0])
    assert scale.apply(data).x.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert scale.apply(data).y.tolist() == [[-1.0], [1.0]]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_agrees_with_scikit_learn(chunk, monkeypatch):
    monkeypatch.setattr("posterity.data.validation._CHUNK_VALUES", chunk)
    rng = np.random.default_rng(0)
    x = rng.normal([3, -1e4, 0.1], [1e-3, 5, 100], (50, 3)).astype(np.float32)
    y = rng.normal(7, 2, (50, 2)).astype(np.float32)
    scaled = Standardisation.of(regression(x, y)).apply(regression(x, y))
    np.testing.assert_allclose(scaled.x, StandardScaler().fit_transform(x.astype(float)), atol=2e-3)
    np.testing.assert_allclose(scaled.y, StandardScaler().fit_transform(y), atol=1e-5)


def test_images_are_standardised_by_channel():
    x = torch.rand(20, 3, 5, 4, generator=torch.Generator().manual_seed(0)) * 255
    data = Dataset(x, torch.arange(20) % 2, "classification", 2)
    scale = Standardisation.of(data)
    assert scale.x_mean.shape == scale.x_sd.shape == (3, 1, 1)
    torch.testing.assert_close(scale.x_mean.flatten(), x.mean((0, 2, 3)))
    torch.testing.assert_close(scale.x_sd.flatten(), x.std((0, 2, 3), correction=0))
    out = scale.apply(data)
    torch.testing.assert_close(out.x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    assert torch.equal(out.y, data.y)
    assert (scale.y_mean.tolist(), scale.y_sd.tolist()) == ([0.0], [1.0])


@pytest.mark.parametrize("value", [0.1, 1e7, -3e-30])
def test_a_constant_feature_becomes_zero(value):
    data = Dataset(torch.full((1001, 2), value), torch.ones(1001), "binary")
    scale = Standardisation.of(data)
    assert scale.x_sd.tolist() == [1.0, 1.0]
    assert not scale.apply(data).x.any()


def test_identity_changes_nothing():
    for data in (
        regression(np.random.default_rng(0).random((4, 3)), np.ones((4, 2))),
        Dataset(torch.rand(4, 2, 3, 3), torch.tensor([0, 1, 0, 1]), "classification", 2),
    ):
        scale = Standardisation.identity(data)
        assert torch.equal(scale.apply(data).x, data.x.float())
        assert torch.equal(scale.apply(data).y, data.y if data.task == "classification" else data.y.float())
        assert scale.apply(data).x.dtype == torch.float32
        assert scale.x_mean.shape == Standardisation.of(data).x_mean.shape


def test_the_test_part_is_standardised_with_training_statistics():
    train, test = regression([[0.0], [2.0]], [0.0, 2.0]), regression([[5.0]], [1.0])
    splits, scale = Splits(train, test).standardised()
    assert splits.test.x.tolist() == [[4.0]]
    assert splits.test.y.tolist() == [[0.0]]
    assert torch.equal(scale.inputs(test.x), splits.test.x)


def test_inputs_pass_gradients_and_leave_their_argument_alone():
    scale = Standardisation.of(regression([[0.0], [4.0]], [0.0, 2.0]))
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([[6.0], [8.0]], dtype=dtype, requires_grad=True)
        scale.inputs(x).sum().backward()
        assert x.grad is not None
        assert (x.tolist(), x.grad.tolist()) == ([[6.0], [8.0]], [[0.5], [0.5]])


def test_state_round_trip():
    scale = Standardisation.of(regression([[0.0, 1.0], [4.0, 3.0]], [0.0, 2.0]))
    again = Standardisation.from_state(scale.state())
    for key, value in scale.state().items():
        assert torch.equal(value, again.state()[key])
        assert value.dtype == again.state()[key].dtype == torch.float64
    with pytest.raises(CorruptFileError, match="lacks x_sd"):
        Standardisation.from_state({key: value for key, value in scale.state().items() if key != "x_sd"})


@pytest.mark.parametrize("shape", [(5, 3), (5,), (5, 2, 2)])
def test_inputs_that_do_not_fit_are_refused(shape):
    scale = Standardisation.of(regression([[0.0, 1.0], [4.0, 3.0]], [0.0, 2.0]))
    with pytest.raises(DataError, match=r"do not fit the training data: expected 2 dimensions.*and 2 features"):
        scale.inputs(torch.zeros(shape))


def test_targets_that_do_not_fit_are_refused():
    scale = Standardisation.of(regression([[0.0], [4.0]], [0.0, 2.0]))
    with pytest.raises(DataError, match="targets have 3 columns but those of the training data 1"):
        scale.targets(torch.zeros(5, 3))


# ---- precision


@pytest.mark.parametrize("chunk", [1, 64, 1 << 22])
def test_digits_that_float32_does_not_have_survive(chunk, monkeypatch):
    monkeypatch.setattr("posterity.data.validation._CHUNK_VALUES", chunk)
    rng = np.random.default_rng(0)
    seconds = 1_700_000_000 + rng.integers(0, 600, (200, 1))  # ten minutes; float32 has steps of 128 seconds here
    y = rng.normal(1e9, 4, (200, 1))
    data = regression(seconds, y)
    scaled = Standardisation.of(data).apply(data)
    assert scaled.x.dtype == scaled.y.dtype == torch.float32
    np.testing.assert_allclose(scaled.x, StandardScaler().fit_transform(seconds - 1.7e9), atol=1e-5)
    np.testing.assert_allclose(scaled.y, StandardScaler().fit_transform(y - 1e9), atol=1e-5)


def test_a_reading_in_float32_meets_statistics_in_float64():
    x = np.array([[2.0**24 + 1], [2.0**24 + 3]])
    scale = Standardisation.of(regression(x, [0.0, 1.0]))
    assert scale.inputs(torch.tensor([[2.0**24]])).tolist() == [[-2.0]]


def test_float32_data_have_float32_statistics_and_arithmetic():
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 7 + 1e3
    scale = Standardisation.of(Dataset(x, torch.ones(50), "binary"))
    assert {value.dtype for value in scale.state().values()} == {torch.float32}
    mean, sd = x.double().mean(0).float(), x.double().std(0, correction=0).float()
    assert torch.equal(scale.inputs(x), (x - mean) / sd)


def test_statistics_leave_float64_data_alone():
    x = torch.arange(12, dtype=torch.float64).reshape(2, 3, 2)
    Standardisation.of(Dataset(x, torch.ones(2), "binary"))
    assert torch.equal(x.flatten(), torch.arange(12, dtype=torch.float64))


@pytest.mark.parametrize(
    "column",
    [
        np.full(1001, 1e9 + 0.1),
        np.where(np.arange(1001) % 2, 0.3, 0.1 + 0.2),  # not the same in the last bit
        np.where(np.arange(1001) % 2, 1e9, np.nextafter(1e9, 2e9)),
        np.where(np.arange(1001) % 2, 1e-170, 2e-170),  # squares underflow
        np.where(np.arange(1001) % 2, 0.0, 5e-324),
    ],
)
def test_rounding_noise_and_underflow_count_as_constant(column):
    data = regression(column[:, None], column)
    scale = Standardisation.of(data)
    assert scale.x_sd.item() == scale.y_sd.item() == 1.0
    assert scale.apply(data).x.abs().max() < 1e-6


def test_a_small_spread_that_is_no_rounding_noise_is_kept():
    x = np.array([[1.0], [1.0 + 1e-13], [1e-3], [1e-3 + 1e-9]])
    assert Standardisation.of(regression(x[:2], x[:2])).x_sd.item() == pytest.approx(5e-14, rel=1e-2)
    assert Standardisation.of(regression(x[2:] - 1e-3, x[2:])).x_sd.item() == pytest.approx(5e-10)


def test_a_variance_that_overflows_is_refused():
    x = torch.tensor([[0.0], [1e200]], dtype=torch.float64)
    with pytest.raises(DataError, match="data: inputs are so large that their variance overflows; rescale"):
        Standardisation.of(Dataset(x, torch.ones(2), "binary"))


def test_binary_targets_become_float32_and_tokens_stay():
    tokens = torch.tensor([[3, 1], [2, 9]])
    data = Dataset(tokens, torch.tensor([0.0, 1.0], dtype=torch.float64), "binary")
    for scale in (Standardisation.of(data), Standardisation.identity(data)):
        out = scale.apply(data)
        assert torch.equal(out.x, tokens)
        assert (out.x.dtype, out.y.dtype) == (torch.int64, torch.float32)
