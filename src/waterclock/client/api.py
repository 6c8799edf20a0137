"""What a program gets: connections, results, and subscriptions, the same for both ways to connect.

Everything is Arrow: a result is a table in the types in which the database holds values, exactly,
and `rows` and `df` are made from it. A statement sees all it reads at one time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import pyarrow as pa

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.client.read_holds import ReadHold


class NoSpark(WaterclockError):
    """A DataFrame was asked for, and there is no Spark session to have it in."""

    sqlstate: ClassVar[str] = "55000"


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave: its rows as Arrow, without columns if it returns none."""

    table: pa.Table
    tag: str
    """The command tag, such as `SELECT 3` or `INSERT 0 1`."""
    spark: SparkSession | None = None

    def arrow(self) -> pa.Table:
        return self.table

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return list(zip(*(column.to_pylist() for column in self.table.columns), strict=True))

    def df(self) -> DataFrame:
        """The rows as a DataFrame of the Spark session. Raises `NoSpark`."""
        if self.spark is None:
            raise NoSpark(
                "there is no Spark session for a DataFrame",
                hint="Give one: waterclock.connect(..., spark=session).",
            )
        return self.spark.createDataFrame(self.table)


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
        self, relation: str, *, snapshot: bool = True, as_of: int | None = None
    ) -> Subscription:
        """The changes of a relation, given by its name as SQL writes it, or of a query.

        The first changes are the contents, unless there shall be no snapshot.
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

    def append(self, table: str, rows: pa.Table | pa.RecordBatch | DataFrame) -> int:
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
