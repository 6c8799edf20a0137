"""Frames of other libraries to Arrow and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame

    from waterclock.client.api import Rows


class NotRows(WaterclockError):
    """What is to be appended is nothing that has rows."""

    sqlstate: ClassVar[str] = "22023"


def as_table(rows: Rows) -> pa.Table:
    """Rows as one Arrow table. The index of a pandas frame is left out. Raises `NotRows`."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "toArrow"):  # of Spark
        return rows.toArrow()
    module = type(rows).__module__.partition(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise NotRows(
        f"{type(rows).__name__} can not be appended",
        hint="Give a table of Arrow, or a frame of Spark, pandas or polars.",
    )


def nullable_frame(table: pa.Table) -> PandasFrame:
    """A pandas frame in which whole numbers and truth values with nulls stay what they are."""
    import pandas as pd

    kinds = {
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    with_nulls = {column.type for column in table.columns if column.null_count}
    return table.to_pandas(
        types_mapper=lambda kind: kinds.get(kind) if kind in with_nulls else None
    )
