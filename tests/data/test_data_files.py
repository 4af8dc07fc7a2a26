from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from posterity.core.errors import CorruptFileError, DataError, PosterityError, UsageError
from posterity.data import Standardisation, load, load_test, read_inputs, resolve_dataset
from posterity.data.files import read_splits

X = np.arange(20.0).reshape(10, 2)


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return tmp_path / "mine.npz"

    return write


@pytest.fixture
def text(tmp_path):
    def write(content, encoding="utf-8"):
        (tmp_path / "mine.csv").write_bytes(content.encode(encoding))
        return tmp_path / "mine.csv"

    return write


def test_npz_is_split_by_seed(npz):
    path = str(npz(x=X, y=np.arange(10) % 2))
    splits = load(path, seed=1)
    assert (len(splits.train), len(splits.test), splits.train.name) == (8, 2, "mine")
    assert sorted(torch.cat([splits.train.x, splits.test.x])[:, 0].tolist()) == X[:, 0].tolist()
    assert torch.equal(load_test(path, seed=1).x, splits.test.x)
    assert not torch.equal(load_test(path, seed=2).x, splits.test.x)


def test_npz_with_its_own_test_arrays_shares_the_classes(npz):
    splits = read_splits(npz(x=X, y=np.arange(10) % 2, x_test=X[:3], y_test=np.array([0, 2, 2])))
    assert (len(splits.train), len(splits.test)) == (10, 3)
    assert splits.train.num_classes == splits.test.num_classes == 3


def test_npz_regression_with_test_arrays_and_given_tasks(npz):
    path = npz(x=X, y=X[:, 0], x_test=X[:2], y_test=X[:2, 0])
    assert read_splits(path).train.task == "regression"
    path = npz(x=X, y=np.arange(10), x_test=X[:2], y_test=np.arange(2))
    assert read_splits(path, task="regression").test.y.tolist() == [[0.0], [1.0]]
    path = npz(x=X, y=np.arange(10) % 2)
    assert read_splits(path, task="binary").train.num_outputs == 1


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"x": X}, DataError, "lacks the array y; it has x"),
        ({"inputs": X}, DataError, "lacks the array x and y; it has inputs"),
        ({"x": X, "y": X[:, 0], "x_test": X}, DataError, "lacks the array y_test"),
        ({"x": X, "y": X[:, 0], "x_test": X[:, :1], "y_test": X[:, 0]}, DataError, "must agree"),
        ({"x": X, "y": X[:4, 0]}, DataError, "10 rows of inputs but 4 of targets"),
        ({"x": X[:1], "y": X[:1, 0]}, DataError, "leaves a part empty"),
        ({"x": np.array([print]), "y": X}, CorruptFileError, "cannot read.*numbers only"),
        ({"x": X, "y": X[:, 0], "x_test": X, "y_test": np.array(["a"] * 10)}, DataError, "type <U1"),
    ],
)
def test_unusable_npz_files_are_refused(npz, arrays, error, message):
    with pytest.raises(error, match=message):
        read_splits(npz(**arrays))


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_unreadable_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"mine{suffix}"
    for reader in (read_splits, read_inputs):
        with pytest.raises(UsageError, match="there is no file"):
            reader(path)
    path.write_bytes(b"\xff\xfe\x00nonsense" * 9)
    for reader in (read_splits, read_inputs):
        with pytest.raises(CorruptFileError, match="cannot read"):
            reader(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="there is no file"):
        read_splits(path)


def test_other_suffixes_and_disguised_arrays_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"neither a \.npz nor a \.csv"):
        read_inputs(tmp_path / "mine.pkl")
    with (tmp_path / "mine.npz").open("wb") as file:
        np.save(file, X)
    with pytest.raises(CorruptFileError, match=r"a single array; use np\.savez"):
        read_inputs(tmp_path / "mine.npz")


@pytest.mark.parametrize("cut", range(0, 700, 70))
def test_a_truncated_npz_is_refused(npz, cut):
    path = npz(x=X, y=X[:, 0])
    os.truncate(path, cut)
    with pytest.raises(PosterityError):
        read_splits(path)


CSV = "a,b,kind\n" + "".join(f"{row},{row / 2},{row % 2}\n" for row in range(10))


def test_csv_takes_the_last_column_or_the_named_one(text):
    splits = load(str(text(CSV)))
    assert (splits.train.task, splits.train.num_classes, splits.train.input_shape) == (
        "classification",
        2,
        (2,),
    )
    splits = load(str(text(CSV)), target="b")
    assert splits.train.task == "regression"
    assert torch.equal(splits.train.y[:, 0] * 2, splits.train.x[:, 0])


def test_csv_may_have_a_byte_order_mark_quotes_blank_lines_and_windows_ends(text):
    splits = read_splits(text('"a","b"\r\n1,0.5\r\n\r\n"2",1.5\r\n3,1e1\r\n', "utf-8-sig"))
    assert sorted(torch.cat([splits.train.x, splits.test.x]).flatten().tolist()) == [1, 2, 3]


def test_whole_numbers_in_a_csv_are_classes_only_if_they_are_numbered_from_0(text):
    rows = "".join(f"1,{3 * row}\n" for row in range(25))
    assert read_splits(text("a,y\n" + rows)).train.task == "regression"
    few = text("a,y\n1,1\n2,2\n3,2\n4,1\n5,2\n")
    with pytest.raises(DataError, match=r"whole numbers 1, 2, which may be .*task='regression'"):
        read_splits(few)
    assert read_splits(few, task="regression").train.task == "regression"
    with pytest.raises(DataError, match="labels are float64"):
        read_splits(text("a,y\n1,0.5\n2,1\n"), task="classification")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", DataError, "is empty; expected a header"),
        ("a,b\n", DataError, "a header but no rows"),
        ("1,2\n3,4\n", DataError, r"begins with numbers \(1, 2\); add a header"),
        ("a,a\n3,4\n", DataError, "more than one column 'a'"),
        ("a\n3\n4\n", DataError, "the single column 'a'"),
        ("a,b\n1,2\n3,x\n", DataError, r"line 3, column 'b': 'x' is not a number"),
        ("a,b\n1,2\n3,\n5,6\n", DataError, "the target is missing in 1 of 3 rows, first in row 1"),
        ("a,b\n1,2\n3\n", DataError, "line 3 has 1 cells, but the header names 2 columns"),
        ("a,b\n1,2\n3,4,5\n", DataError, "line 3 has 3 cells"),
        ("a,b\n" + "inf,2.5\n3,4\n" * 9, DataError, "column 'a' is infinity .* first in row 0"),
        ("a,b\n" + ",2.5\n" * 9, DataError, "column 'a' has no values at all; drop it"),
    ],
)
def test_unusable_csv_files_are_refused(text, content, error, message):
    with pytest.raises(error, match=message):
        read_splits(text(content))


def test_unknown_and_meaningless_targets_are_refused(text, npz):
    with pytest.raises(UsageError, match="has no column 'c'; its columns are a, b, kind"):
        read_splits(text(CSV), target="c")
    with pytest.raises(UsageError, match="target 'c' names a column"):
        read_splits(npz(x=X, y=X[:, 0]), target="c")


def test_inputs_for_prediction(text, npz):
    assert read_inputs(text(CSV)).shape == (10, 3)
    assert read_inputs(text(CSV), target="kind").shape == (10, 2)
    assert read_inputs(text(CSV), target="absent").shape == (10, 3)
    assert torch.equal(read_inputs(npz(x=X, y=X)), torch.from_numpy(X))
    assert read_inputs(npz(images=np.zeros((2, 1, 4, 4), np.uint8))).shape == (2, 1, 4, 4)
    assert read_inputs(npz(x=np.ones(3))).shape == (3, 1)


def test_unusable_inputs_are_refused(text, npz):
    with pytest.raises(DataError, match="has the arrays a, b; name the inputs x"):
        read_inputs(npz(a=X, b=X))
    with pytest.raises(DataError, match="NaN or infinite"):
        read_inputs(npz(x=np.array([[1.0], [np.nan]])))
    with pytest.raises(DataError, match="no data"):
        read_inputs(npz(x=np.zeros((0, 3))))
    with pytest.raises(DataError, match="no column but the target 'a'"):
        read_inputs(text("a\n1\n"), target="a")


def test_tables_of_many_columns_are_read(text):
    """Any search of a name among all others for each of them would take hours."""
    count = 50_000
    names = [f"c{number}" for number in range(count)]
    row = ",".join(["1.5"] * count)
    path = text(",".join([*names, "y"]) + "\n" + "".join(f"{row},{y}.5\n" for y in range(5)))
    assert load(str(path)).train.input_shape == (count,)
    columns = load(str(path)).train.columns
    assert columns.names == names
    assert read_inputs(path, columns=columns).shape == (5, count)
    with pytest.raises(UsageError, match=r"no column 'z'; its columns are c0, .*, c19 and 49981 more\.$"):
        load(str(path), target="z")


def test_columns_are_all_but_the_target(text):
    assert load(str(text(CSV))).train.columns.names == ["a", "b"]
    columns = load(str(text(CSV)), target="kind").train.columns
    swapped = text("b,more,a\n2,7,4\n")
    assert read_inputs(swapped, columns=columns)[0].tolist() == [4.0, 2.0]
    with pytest.raises(DataError, match=r"mine\.csv: the table lacks the column b that the network was trained on"):
        read_inputs(text("a,c\n1,2\n"), columns=columns)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "mine.csv").write_bytes(b"\xff\xfe\x00nonsense")
    (tmp_path / "mine.csv.gz").write_bytes(b"not packed")
    for name in ("mine.csv", "mine.csv.gz"):
        with pytest.raises(CorruptFileError, match=rf"cannot read .*{name} as a UTF-8"):
            read_splits(tmp_path / name)


def test_a_csv_keeps_digits_that_float32_does_not_have(text):
    path = text("seconds,y\n" + "".join(f"{1_700_000_000 + row},{1e9 + row / 8}\n" for row in range(40)))
    train = load(str(path)).train
    scaled = Standardisation.of(train).apply(train)
    assert len(scaled.x.unique()) == len(scaled.y.unique()) == len(train)
    assert len(read_inputs(path, target="y").unique()) == 40


# ---- names and paths


def test_names_of_data_sets_stay():
    for name in ("digits", "uci-wine", "no such set"):
        assert resolve_dataset(name) == name


def test_a_path_holds_in_every_folder(tmp_path, monkeypatch, npz):
    path = npz(x=X, y=np.arange(10) % 2)
    monkeypatch.chdir(tmp_path)
    found = [resolve_dataset(name) for name in ("mine.npz", "./mine.npz", str(path), f"../{tmp_path.name}/mine.npz")]
    assert set(found) == {str(path.resolve())}
    assert resolve_dataset(found[0]) == found[0]
    monkeypatch.chdir("/")
    assert len(load(found[0]).train) == 8


@pytest.mark.parametrize("name", ["DATA.CSV", "Data.Csv"])
def test_suffixes_may_be_in_upper_case(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text(CSV)
    monkeypatch.chdir(tmp_path)
    path = resolve_dataset(name)
    assert path == str(tmp_path.resolve() / name)
    assert load(path).train.input_shape == load(name).train.input_shape == (2,)
    np.savez(tmp_path / "x.npz", x=X, y=X[:, 0])
    (tmp_path / "x.npz").rename(tmp_path / "X.NPZ")
    assert len(load_test(resolve_dataset("X.NPZ"))) == 2


def test_a_link_is_read_by_its_own_suffix_and_folders_are_resolved(tmp_path, monkeypatch):
    (tmp_path / "store" / "deep").mkdir(parents=True)
    (tmp_path / "store" / "blob123").write_text(CSV)
    (tmp_path / "data.csv").symlink_to("store/blob123")
    (tmp_path / "link").symlink_to("store/deep")
    (tmp_path / "store" / "real.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)
    here = tmp_path.resolve()
    assert resolve_dataset("data.csv") == str(here / "data.csv")
    assert len(load(resolve_dataset("data.csv")).train) == 8
    # Through a link, .. is the parent of where it leads.
    assert resolve_dataset("link/../real.csv") == str(here / "store" / "real.csv")
