"""Results as programs and people use them, and what can be appended."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import waterclock
from waterclock.client.api import NoSpark, Result
from waterclock.client.frames import NotRows, as_table
from waterclock.client.remote import ServerError

TABLE = pa.table(
    {
        "id": pa.array([1, None], pa.int32()),
        "name": pa.array(["a|b", "two\nlines"]),
        "amount": pa.array([Decimal("1.50"), Decimal("-20.00")], pa.decimal128(10, 2)),
        "ok": pa.array([True, None]),
    }
)


def test_rows_are_counted_and_iterated_over() -> None:
    result = Result(TABLE, "SELECT 2")
    assert len(result) == 2
    assert list(result) == result.rows
    assert result.rows[0] == (1, "a|b", Decimal("1.50"), True)
    many = Result(pa.table({"n": range(5000)}), "SELECT 5000")
    assert [n for (n,) in many] == list(range(5000))
    assert Result(pa.table({"n": pa.array([], pa.int64())}), "SELECT 0")


def test_a_result_is_shown_as_a_table() -> None:
    assert repr(Result(TABLE, "SELECT 2")).splitlines() == [
        "id |    name    | amount |  ok",
        "---+------------+--------+-----",
        " 1 | a|b        |   1.50 | True",
        "   | two\\nlines | -20.00 |",
        "(2 rows)",
    ]
    assert repr(Result(pa.table({}), "INSERT 0 1")) == "INSERT 0 1"
    assert repr(Result(pa.table({"a": [1]}), "SELECT 1")).endswith("(1 row)")


def test_only_the_beginning_of_a_large_result_is_shown() -> None:
    shown = repr(
        Result(pa.table({"n": range(100_000), "t": ["x" * 500] * 100_000}), "")
    ).splitlines()
    assert len(shown) == 23
    assert shown[-1] == "(100000 rows, the first 20 are shown)"
    assert max(map(len, shown)) < 80


def test_a_notebook_shows_html_in_which_values_are_no_markup() -> None:
    result = Result(pa.table({"<b>": ["<script>", "&"]}), "SELECT 2")
    shown = result._repr_html_()
    assert "<th>&lt;b&gt;</th>" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert Result(pa.table({}), "A<B")._repr_html_() == "A&lt;B"


def test_frames_of_pandas_keep_their_types_where_there_are_nulls() -> None:
    frame = Result(TABLE, "SELECT 2").pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int32", "object", "object", "boolean"]
    assert frame["id"][0] == 1
    assert frame["id"].isna().tolist() == [False, True]
    assert str(Result(pa.table({"n": [1]}), "").pandas().dtypes["n"]) == "int64"


def test_whatever_reads_arrow_reads_a_result() -> None:
    assert pa.table(Result(TABLE, "SELECT 2")) == TABLE


def test_what_can_be_appended() -> None:
    batch = TABLE.to_batches()[0]
    assert as_table(TABLE) is TABLE
    assert as_table(batch) == TABLE
    assert as_table(Result(TABLE, "SELECT 2")) == TABLE
    frame = pd.DataFrame({"n": [1, 2], "at": [datetime.date(2026, 1, 1)] * 2}, index=[7, 8])
    assert as_table(frame).column_names == ["n", "at"], "the index is no column"
    assert as_table(frame[frame["n"] > 1]).to_pylist() == [
        {"n": 2, "at": datetime.date(2026, 1, 1)}
    ]
    with pytest.raises(NotRows, match="list can not be appended"):
        as_table([1, 2])  # type: ignore[arg-type]


def test_no_session_no_data_frame() -> None:
    with pytest.raises(NoSpark):
        Result(TABLE, "SELECT 2").df()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1"])
def test_an_address_is_a_server(
    address: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with pytest.raises(ServerError, match=r"connect|refused"):
        waterclock.connect(address)
    assert not __import__("os").listdir("."), "no directory was made"
