"""What a program gets: connections, results, and subscriptions, the same for both ways to connect.

Everything is Arrow: a result is a table in the types in which the database holds values, exactly,
and `rows` and `df` are made from it. A statement sees all it reads at one time.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

import pyarrow as pa

from waterclock.client.display import html_table, text_table
from waterclock.client.frames import nullable_frame
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.client.read_holds import ReadHold


class NoSpark(WaterclockError):
    """A DataFrame was asked for, and there is no Spark session to have it in."""

    sqlstate: ClassVar[str] = "55000"


def require_spark(session: SparkSession | None) -> SparkSession:
    """The session. Raises `NoSpark`."""
    if session is None:
        raise NoSpark(
            "there is no Spark session for a DataFrame",
            hint="Give one: waterclock.connect(..., spark=session).",
        )
    return session


_ITERATED_ROWS = 1024


Rows: TypeAlias = "pa.Table | pa.RecordBatch | DataFrame | PandasFrame | ArrowStream"
"""Rows that can be appended: of Arrow, Spark, pandas, or of whatever gives Arrow (polars does)."""


class ArrowStream(Protocol):
    """Something whose rows can be had as Arrow, by Arrow's protocol for that."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What a statement gave: its rows as Arrow, without columns if it returns none.

    It has a length, can be iterated over, and is shown as a table, in notebooks too. Whatever reads
    Arrow reads it: `polars.DataFrame(result)`, or DuckDB's `SELECT * FROM result`.
    """

    table: pa.Table
    tag: str
    """The command tag, such as `SELECT 3` or `INSERT 0 1`."""
    spark: SparkSession | None = None

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def pandas(self) -> PandasFrame:
        """The rows as a pandas DataFrame. Columns with nulls keep their types."""
        return nullable_frame(self.table)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return list(self)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __bool__(self) -> bool:
        """A result is true, rows or not."""
        return True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows one after the other, as tuples of Python values."""
        for batch in self.table.to_batches(max_chunksize=_ITERATED_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def __repr__(self) -> str:
        return text_table(self.table) or self.tag

    def _repr_html_(self) -> str:
        return html_table(self.table) or html.escape(self.tag)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def df(self) -> DataFrame:
        """The rows as a DataFrame of the Spark session. Raises `NoSpark`."""
        return require_spark(self.spark).createDataFrame(self.table)


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything that happened before `upper` and was not told before.

    The updates have the columns `mz_timestamp` and `mz_diff`, then those of the rows. There may be
    none: then it is known that nothing happened.
    """

    updates: pa.Table
    upper: int


class Subscription(Protocol):
    """Changes as they come, without end. Not thread-safe."""

    def __iter__(self) -> Iterator[Changes]: ...

    def __next__(self) -> Changes: ...

    def close(self) -> None:
        """End it. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Connection(Protocol):
    """A session with the database. Errors are `WaterclockError`s. Thread-safe: calls take turns."""

    def sql(self, text: str, *parameters: object) -> Result:
        """Run the text; with several statements, the result of the last.

        Parameters stand where `$1`, `$2`... are, and then there is one statement only.
        """

    def subscribe(
        self,
        relation: str,
        *,
        snapshot: bool = True,
        as_of: int | None = None,
        lease_s: float | None = None,
    ) -> Subscription:
        """The changes of a relation, given by its name as SQL writes it, or of a query.

        The first changes are the contents, unless there shall be no snapshot. With a lease, which
        is for relations alone, it goes on after a lost connection or a restart of the server, and
        nothing is lost or repeated, if that takes no longer than the lease.
        """

    def hold(
        self,
        *relations: str,
        name: str | None = None,
        as_of: int | None = None,
        lease_s: float = 60.0,
    ) -> ReadHold:
        """Keep relations readable as they are now, or were at `as_of`, until that is closed.

        A hold with a name can be taken up again by it, after a crash and before its lease ends.
        """

    @property
    def spark(self) -> SparkSession:
        """The Spark session in which DataFrames are made. Raises `NoSpark`."""

    def append(self, table: str, rows: Rows) -> int:
        """Insert rows into the table, all of them or none, by the names of their columns.

        Returns how many there were. They are durable then.
        """

    def close(self) -> None:
        """End the session; inside a program, close the database too. Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
