"""What is learnt of a table: numbers, categories, gaps, and what is refused."""

import datetime
import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.data import Columns, Standardisation, load
from posterity.data.frames import table_of
from posterity.data.tables import read_table

FRAME = {
    "size": [1.0, None, 3.0, 2.0],
    "town": ["Ulm", "Bonn", None, "Ulm"],
    "garden": [True, False, True, True],
}


@pytest.fixture
def columns():
    return Columns.of(table_of(pd.DataFrame(FRAME)))


def test_gaps_have_an_indicator_and_the_mean_and_categories_a_feature_each(columns):
    assert columns.features == ["size", "size (missing)", "town=Bonn", "town=Ulm", "town=(missing)", "garden"]
    assert columns.encode(table_of(pd.DataFrame(FRAME))).tolist() == [
        [1, 0, 0, 1, 0, 1],
        [2, 1, 1, 0, 0, 0],  # the mean of 1, 3 and 2
        [3, 0, 0, 0, 1, 1],
        [2, 0, 0, 1, 0, 1],
    ]
    assert columns.scaled == [True, False, False, False, False, True]


def test_pandas_polars_dicts_and_arrays_are_the_same_table(columns):
    expected = columns.encode(table_of(pd.DataFrame(FRAME)))
    objects = np.array(list(zip(*FRAME.values(), strict=True)), dtype=object)
    for frame in (
        pl.DataFrame(FRAME),
        FRAME,
        pd.DataFrame(FRAME).convert_dtypes(),
        pd.DataFrame(FRAME).astype({"town": "category"}),
        pl.DataFrame(FRAME).with_columns(pl.col("town").cast(pl.Categorical)),
    ):
        assert np.array_equal(columns.encode(table_of(frame)), expected)
    by_place = dict(zip(FRAME, table_of(objects).values(), strict=True))
    assert np.array_equal(columns.encode(by_place), expected)


def test_unknown_categories_are_all_zeros_and_columns_are_found_by_name(columns):
    new = {"garden": [False], "town": ["Kiel"], "more": [9], "size": [5]}
    assert columns.encode(table_of(new)).tolist() == [[5, 0, 0, 0, 0, 0]]
    with pytest.raises(DataError, match="lacks the column size, garden"):
        columns.encode(table_of({"town": ["Ulm"]}))
    with pytest.raises(DataError, match="'size' held numbers in training; now there is text"):
        columns.encode(table_of({**new, "size": ["large"]}))


def test_many_categories_or_chosen_ones_are_embedded_as_codes():
    table = table_of({"town": [f"t{k % 30:02}" for k in range(60)], "rooms": [1, 2] * 30, "x": list(range(60))})
    columns = Columns.of(table, embedded=["rooms"])
    assert columns.features == ["x", "town", "rooms"]
    assert columns.codes == (31, 3)  # with 0 for what is unknown
    assert columns.encode(table)[1].tolist() == [1, 2, 2]
    assert columns.encode(table_of({"town": ["new"], "rooms": [7.0], "x": [0]})).tolist() == [[0, 0, 0]]
    assert Columns.of(table, max_one_hot=30).codes == ()
    with pytest.raises(UsageError, match="embedded names garden; the table's columns are town"):
        Columns.of(table, embedded=["garden"])


def test_it_is_written_as_json_and_read_back(columns):
    kept = json.loads(json.dumps(columns.as_dict()))
    assert Columns.from_dict(kept) == columns
    with pytest.raises(CorruptFileError, match="does not describe a table's columns"):
        Columns.from_dict([{"nmae": "a"}])


@pytest.mark.parametrize(
    "dates",
    [
        pd.Series(pd.to_datetime(["2024-01-31", "2024-02-01"])),
        pl.Series([datetime.date(2024, 1, 31), None]),
        [datetime.datetime(2024, 1, 31), None],
        ["2024-01-31", "2024-02-01 12:00"],
        ["31.1.2024", None],
        pd.Series(pd.to_timedelta([1, 2], unit="D")),
        ["12:30", "13:45:10"],
    ],
    ids=str,
)
def test_dates_are_refused_with_advice(dates):
    with pytest.raises(DataError, match=r"'when' holds dates or times.*days since the first.*weekday.*drop the column"):
        Columns.of(table_of({"when": dates, "x": [1, 2]}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [None, None]}, "'a' has no values at all; drop it"),
        ({"a": [1.0, np.inf]}, "'a' is infinity .* in 1 of 2 rows, first in row 1"),
        ({"a": [f"name {k}" for k in range(50)]}, "another text in every row, such as 'name 0'.*drop it"),
        ({"a": [{"b": 1}, {}]}, "holds a dict"),
        ({"a": [1, 2], "b": [1]}, "different lengths"),
        ({}, "no columns"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(table, message):
    with pytest.raises(DataError, match=message):
        Columns.of(table_of(table))


def test_columns_of_the_same_name_are_refused():
    with pytest.raises(DataError, match="more than one column 'a'"):
        table_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


CSV = "size;town;garden;price\n" + "".join(
    f"{k},5;{'Ulm' if k % 3 else ''};{'True' if k % 2 else 'False'};{'low' if k < 20 else 'high'}\n" for k in range(40)
)


@pytest.mark.parametrize("name", ["homes.csv", "homes.csv.gz", "HOMES.CSV.GZ"])
def test_semicolons_decimal_commas_gzip_text_and_class_names(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(CSV.encode()) if name.lower().endswith("gz") else CSV.encode())
    splits = load(str(path))
    assert splits.train.classes == ("high", "low")
    assert splits.train.name.lower() == "homes"
    assert splits.train.columns.features == ["size", "town=Ulm", "town=(missing)", "garden"]
    assert splits.train.x[:, 0].frac().unique().tolist() == [0.5]
    scale = Standardisation.of(splits.train)
    assert scale.x_mean[1:3].tolist() == [0, 0]
    assert scale.x_sd[1:3].tolist() == [1, 1]
    assert torch.equal(splits.train.y, (splits.train.x[:, 0] < 20).long())


def test_a_word_among_numbers_is_a_mistake_not_a_category(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b\n1,2\n?,NA\n3,4\nfour,5\n")
    with pytest.raises(DataError, match=r"line 5, column 'a': 'four' is not a number, as others in the column are"):
        read_table(path)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_separators_are_found_in_the_header(tmp_path, mark):
    path = tmp_path / "d.csv"
    path.write_text(f'a{mark}"b,;|"\n1{mark}x\n2{mark}y\n')
    table = read_table(path)
    assert list(table) == ["a", "b,;|"]
    assert table["b,;|"].tolist() == ["x", "y"]


def test_targets_that_are_no_classes_are_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b\n" + "".join(f"{k},text {k}\n" for k in range(10)))
    with pytest.raises(DataError, match=r"10 of 10 targets are different texts, such as 'text 0'.*--target"):
        load(str(path))
    with pytest.raises(DataError, match="such as 'text 0'; a regression needs numbers"):
        load(str(path), task="regression")
