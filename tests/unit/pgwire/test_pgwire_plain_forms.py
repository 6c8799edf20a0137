"""What is read all at once, because it has a plain form, is what reading it one by one gives."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.api import ColumnDescription, CopyIn, csv_options
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, numeric, type_named
from waterclock.pgwire.copy.csv import CsvDecoder
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import zone_named

UTC = zone_named("UTC")
NUMBERS = ["1", "-0", "007", "1.5", "12345678.90", "-0.00", "-99999999.99", "0.1", "3."]
OTHERS = ["1.005", "123456789", "1e3", " 1 ", "+1", ".5", "x", "NaN", "1.50.2", ""]
KINDS = [numeric(10, 2), numeric(4, 0), numeric(2, 2), PgType(type_named("numeric").oid)]


@pytest.mark.parametrize("declared", KINDS)
@pytest.mark.parametrize("text", [*NUMBERS, *OTHERS])
def test_numbers(declared: PgType, text: str) -> None:
    many = pa.array(["1" if declared != KINDS[2] else "0"] * 30 + [None, text])
    try:
        expected = decode_text(pa.array([text]), declared, UTC)[0]
    except WaterclockError as error:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            decode_text(many, declared, UTC)
        return
    found = decode_text(many, declared, UTC)
    assert found[31] == expected
    assert not found[30].is_valid


class NoSink:
    """Takes nothing: a decoder only makes batches."""

    async def append(self, batch: pa.RecordBatch) -> None:
        raise AssertionError(batch)

    async def finish(self) -> str:
        return "COPY 0"

    async def stoppable(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await work()

    async def abort(self) -> None:
        pass


def decoded(data: str) -> pa.Table:
    columns = tuple(ColumnDescription(name, PgType(type_named("text").oid)) for name in "ab")
    decoder = CsvDecoder(CopyIn(columns, csv_options(), NoSink(), "t"), UTC)
    batches = [*decoder.feed(data.encode()), *decoder.finish()]
    return pa.Table.from_batches(batches)


def test_records_without_quotes_are_split_at_once() -> None:
    found = decoded("1,x\n2,\n,y\n")
    assert found.to_pydict() == {"a": ["1", "2", None], "b": ["x", None, "y"]}


@pytest.mark.parametrize("data", ["1,x,2\n3\n", "1\n2,x,3\n", "1,x\n2\n"])
def test_fields_of_one_record_are_not_taken_for_those_of_another(data: str) -> None:
    with pytest.raises(WaterclockError):
        decoded(data)
