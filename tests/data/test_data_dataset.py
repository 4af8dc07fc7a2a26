from __future__ import annotations

import numpy as np
import pytest
import torch

from posterity.core.errors import DataError
from posterity.data import Dataset

X = torch.arange(12.0).reshape(6, 2)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def test_classification_knows_its_shape_and_outputs():
    data = Dataset(torch.zeros(6, 3, 4, 4), LABELS, "classification", 3)
    assert (len(data), data.input_shape, data.num_outputs) == (6, (3, 4, 4), 3)


def test_binary_has_one_output_and_regression_one_per_column():
    assert Dataset(X, torch.ones(6), "binary").num_outputs == 1
    assert Dataset(X, torch.ones(6, 2), "regression").num_outputs == 2


@pytest.mark.parametrize(
    ("x", "y", "task", "classes", "message"),
    [
        (X[:0], LABELS[:0], "classification", 3, "no data"),
        (torch.zeros(6, 0), LABELS, "classification", 3, "no data"),
        (X, LABELS[:5], "classification", 3, "6 rows of inputs but 5 of targets"),
        (X.int(), LABELS, "classification", 3, r"torch\.int32.*convert them with \.float"),
        (X[:, 0], LABELS, "classification", 3, r"shape \(6,\)"),
        (X, LABELS.float(), "classification", 3, r"torch\.float32.*expected torch\.int64"),
        (X, LABELS, "classification", 2, "label 2 in row 2 is outside 0..1"),
        (X, LABELS - 1, "classification", 3, "label -1 in row 0 is outside 0..2"),
        (X, LABELS, "classification", 0, "num_classes is 0"),
        (X, LABELS.float(), "binary", 0, "binary target 2.0 in row 2 is neither 0 nor 1"),
        (X, LABELS % 2, "binary", 0, r"torch\.int64 of shape \(6,\)"),
        (X, torch.ones(6), "regression", 0, r"expected floating point of shape \(rows, columns\)"),
        (X, torch.ones(6, 1).long(), "regression", 0, "expected floating point"),
        (X, LABELS, "clustering", 3, "'clustering' is not one of classification, binary, regression"),
    ],
)
def test_unusable_data_are_refused(x, y, task, classes, message):
    with pytest.raises(DataError, match=message):
        Dataset(x, y, task, classes)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_rows_are_counted_and_located(value):
    x = X.clone()
    x[3, 1] = x[5, 0] = value
    with pytest.raises(DataError, match=r"inputs are NaN or infinite .* in 2 of 6 rows, first in row 3"):
        Dataset(x, LABELS, "classification", 3)
    y = torch.zeros(6, 1)
    y[4] = value
    with pytest.raises(DataError, match=r"targets are NaN or infinite .* in 1 of 6 rows, first in row 4"):
        Dataset(X, y, "regression")


def test_non_finite_rows_are_located_across_chunks(monkeypatch):
    monkeypatch.setattr("posterity.data.validation._CHUNK_VALUES", 4)
    x = X.clone()
    x[3, 1] = x[5, 0] = float("nan")
    with pytest.raises(DataError, match="in 2 of 6 rows, first in row 3"):
        Dataset(x, LABELS, "classification", 3)


def test_large_finite_values_whose_sum_overflows_are_accepted():
    assert len(Dataset(torch.full((4, 2), 3e38), torch.ones(4), "binary")) == 4


def test_integer_targets_mean_classification_and_floats_regression():
    labels = Dataset.from_arrays([[1], [2], [3]], [0, 1, 2])
    assert (labels.task, labels.num_classes, labels.y.dtype) == ("classification", 3, torch.int64)
    values = Dataset.from_arrays(np.zeros((3, 2)), np.array([0.5, 1.0, 2.0]))
    assert (values.task, values.num_classes, tuple(values.y.shape)) == ("regression", 0, (3, 1))
    assert Dataset.from_arrays(np.zeros((2, 2)), np.array([True, False])).num_classes == 2


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "float16", "float32"])
def test_what_float32_holds_becomes_float32(dtype):
    values = np.array([[0], [1]], dtype)
    assert Dataset.from_arrays(values, [0.5, 1.5]).x.dtype == torch.float32
    assert Dataset.from_arrays(np.ones((2, 1), "f4"), values, "regression").y.dtype == torch.float32


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float64", "longdouble"])
def test_what_float32_does_not_hold_becomes_float64(dtype):
    values = np.array([[2**31 - 1], [1]], dtype)
    data = Dataset.from_arrays(values, values, "regression")
    assert data.x.dtype == data.y.dtype == torch.float64
    assert data.x[0].item() == data.y[0].item() == 2**31 - 1


def test_to_changes_the_type_of_numbers_only():
    data = Dataset.from_arrays(np.full((2, 1), 0.1), [0, 1])
    narrow = data.to(torch.float32)
    assert (narrow.x.dtype, narrow.y.dtype) == (torch.float32, torch.int64)
    assert narrow.x[0].item() == np.float32(0.1)
    tokens = Dataset(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 1, dtype=torch.float64), "regression")
    assert (tokens.to(torch.float32).x.dtype, tokens.to(torch.float32).y.dtype) == (torch.int64, torch.float32)
    with pytest.raises(DataError, match=r"inputs are NaN or infinite \(as torch\.float32\) in 1 of 2 rows"):
        Dataset(torch.tensor([[1.0], [1e300]], dtype=torch.float64), torch.ones(2), "binary").to(torch.float32)


def test_task_and_classes_can_be_given():
    x = np.zeros((4, 2))
    assert Dataset.from_arrays(x, [0, 1, 1, 0], "binary").y.dtype == torch.float32
    assert Dataset.from_arrays(x, [3, 1, 4, 1], "regression").num_outputs == 1
    assert Dataset.from_arrays(x, [0, 1, 1, 0], num_classes=7).num_outputs == 7


def test_images_of_bytes_keep_their_scale_and_read_only_arrays_are_copied():
    images = np.full((2, 1, 2, 2), 255, np.uint8)
    images.setflags(write=False)
    assert Dataset.from_arrays(images, [0, 1]).x.max() == 255
    floats = np.ones((2, 2), np.float32)
    floats.setflags(write=False)
    data = Dataset.from_arrays(floats, [0, 1])
    data.x[0, 0] = 5
    assert floats[0, 0] == 1


def test_one_feature_may_come_as_a_vector_and_tensors_may_need_gradients():
    data = Dataset.from_arrays(torch.ones(3, requires_grad=True), torch.tensor([0.1, 0.2, 0.3]))
    assert data.input_shape == (1,)
    assert not data.x.requires_grad


@pytest.mark.parametrize(
    ("x", "y", "task", "message"),
    [
        ([["a"], ["b"]], [0, 1], None, "inputs are of type <U1"),
        ([[1], [2, 3]], [0, 1], None, "not a regular array"),
        ([[1], [2]], [0.0, 1.0], "classification", r"labels are float64, not integers; .*astype\(int\)"),
        ([[1], [2]], [0, 70000], None, "would mean 70001 classes.*task='regression'"),
        ([[1], [2]], 3, None, "targets are the single number 3"),
        ([[1], [1e300]], [0, 1], None, "infinite .*first in row 1"),
        ([[1], [2]], [1 + 2j, 0], None, "targets are of type complex128"),
    ],
)
def test_unusable_arrays_are_refused(x, y, task, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(x, y, task)


def test_subset_takes_positions_or_a_mask():
    data = Dataset(X, LABELS, "classification", 3, "mine")
    some = data.subset(torch.tensor([4, 0]))
    assert some.y.tolist() == [1, 0]
    assert (some.num_classes, some.name) == (3, "mine")
    assert data.subset(LABELS == 2).x.tolist() == [[4.0, 5.0], [10.0, 11.0]]


def test_split_partitions_the_rows_and_repeats_with_the_seed():
    data = Dataset(torch.arange(10.0).unsqueeze(1), torch.zeros(10), "binary")
    rest, held = data.split(0.3, torch.Generator().manual_seed(4))
    assert (len(rest), len(held)) == (7, 3)
    assert sorted(torch.cat([rest.x, held.x]).flatten().tolist()) == list(range(10))
    again = data.split(0.3, torch.Generator().manual_seed(4))[1]
    assert torch.equal(held.x, again.x)
    assert not torch.equal(held.x, data.split(0.3, torch.Generator().manual_seed(5))[1].x)


def test_a_sample_has_its_rows_once_and_in_order_and_all_are_as_likely():
    data = Dataset(torch.arange(10.0).unsqueeze(1), torch.arange(10), "classification", 10, "mine")
    counts = torch.zeros(10)
    generator = torch.Generator().manual_seed(0)
    for _ in range(500):
        some = data.sample(3, generator)
        assert torch.equal(some.x[:, 0].long(), some.y)
        assert (some.y.diff() > 0).all()
        counts[some.y] += 1
    assert ((counts / 500 - 0.3).abs() < 4 * (0.3 * 0.7 / 500) ** 0.5).all()
    assert torch.equal(data.sample(10, generator).x, data.x)
    one, other = (data.sample(4, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one.x, other.x)


@pytest.mark.parametrize("count", [7, 0, -1])
def test_a_sample_of_more_rows_than_there_are_or_of_none_is_refused(count):
    with pytest.raises(DataError, match=f"cannot sample {count} of the 6 rows of data; give 1 to 6"):
        Dataset(X, LABELS, "classification", 3).sample(count, torch.Generator())


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, 0.01, 0.99])
def test_a_split_that_leaves_a_part_empty_is_refused(fraction):
    with pytest.raises(DataError, match=f"the fraction {fraction} of the 6 rows"):
        Dataset(X, LABELS, "classification", 3).split(fraction, torch.Generator())
