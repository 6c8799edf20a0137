"""Whoever answers catalog queries: the port, and the answerer over DuckDB.

A query is bound once and its text kept; from then on it costs what DuckDB takes to run it. It runs
on the caller's thread and blocks it for milliseconds, so it belongs on a worker thread, not on an
event loop. Everything that is shown to the user is in PostgreSQL's words; what DuckDB said goes to
the log, with the name of the client's application, since clients nobody has seen yet ask things
nobody has thought of.
"""

from __future__ import annotations

import datetime
import logging
import re
import threading
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from waterclock.catalog.system.binding.functions import STEP_OF_ZERO, TOO_MANY_ROWS, Functions
from waterclock.catalog.system.binding.live import HERE
from waterclock.catalog.system.binding.parsing import parse
from waterclock.catalog.system.binding.queries import BoundStatement, bind_statement
from waterclock.catalog.system.calls import Calls
from waterclock.catalog.system.context import Context, SettingChange
from waterclock.catalog.system.errors import (
    CatalogQueryError,
    FeatureNotSupported,
    GroupingFault,
    InvalidRegularExpression,
    InvalidText,
    InvalidValue,
    NumberOutOfRange,
    OutOfMemory,
    ProgramLimitExceeded,
    QueryCancelled,
    TooManyRows,
)
from waterclock.catalog.system.facts import IMPLICIT_SCHEMAS, SYSTEM_SCHEMAS, load_facts
from waterclock.catalog.system.image import CatalogImage
from waterclock.catalog.system.results import arrow_result
from waterclock.catalog.system.session import Cancellation, SessionFacts
from waterclock.catalog.system.snapshot import Snapshot
from waterclock.catalog.system.store import CATALOG_MEMORY_MB, Store
from waterclock.catalog.system.types import REG_TYPES, Types
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType
from waterclock.runtime import SYSTEM, Runtime

_log = logging.getLogger(__name__)

VERSION = "PostgreSQL 15.0 on x86_64-pc-linux-gnu, compiled by waterclock, 64-bit"
"""Result of `version()`: clients read the number in it."""
MZ_VERSION = "v26.10.0 (waterclock)"
_KEPT_PLANS = 2000
_LONGEST_KEPT = 64_000
"""Characters of a query whose plan is kept."""
_PIECE = 2000
"""Rows between two looks at whether anybody still wants them."""
_BYTES_PER_VALUE = 64
_KEPT_CONSTANTS = 200
_STRING = re.compile(r"'[^']*'")
_CALL = re.compile(r"(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    name: str
    type: PgType


@dataclass(frozen=True, slots=True)
class Description:
    parameters: tuple[PgType, ...]
    columns: tuple[ColumnDescription, ...]


@dataclass(frozen=True, slots=True)
class CatalogResult:
    columns: tuple[ColumnDescription, ...]
    rows: pa.Table
    settings: tuple[SettingChange, ...] = ()
    """What the query asked to set, which is for the session to do."""


class CatalogAnswerer(Protocol):
    """Answers queries over the system relations, and queries over no relation at all."""

    def describe(
        self, sql: str, parameter_types: Sequence[int], session: SessionFacts
    ) -> Description:
        """The types of parameters and columns. A parameter's type of 0 is to be found out."""
        ...

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any],
        session: SessionFacts,
        parameter_types: Sequence[int] = (),
        cancellation: Cancellation | None = None,
    ) -> CatalogResult:
        """The rows. A parameter is a Python value of the type that `describe` told."""
        ...


class DuckDbAnswerer:
    """The answerer over an in-process DuckDB.

    `image` gives the catalog as it is now. It is called for every query, so it should keep the
    image of a version and not make it each time.
    """

    def __init__(
        self,
        image: Callable[[], CatalogImage],
        memory_mb: int = CATALOG_MEMORY_MB,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """`memory_mb` bounds what DuckDB takes for all queries, and the rows of each."""
        self._image = image
        self._runtime = runtime
        self._most_bytes = memory_mb << 20
        self._facts = load_facts()
        self._types = Types(self._facts)
        self._functions = Functions()
        self._calls = Calls(self._facts)
        self._store = Store(self._facts, self._types, self._calls, memory_mb)
        self._plans: OrderedDict[Any, BoundStatement] = OrderedDict()
        self._constants: OrderedDict[str, CatalogResult] = OrderedDict()
        """Answers that are the same for everybody and at all times, by text."""
        self._lock = threading.Lock()

    def close(self) -> None:
        self._store.close()

    def is_system_relation(
        self, schema: str | None, name: str, search_path: Sequence[str] = ()
    ) -> bool:
        """Whether the name means a system relation; what `route` asks of a resolver."""
        if schema is not None:
            return schema in SYSTEM_SCHEMAS
        places = (*IMPLICIT_SCHEMAS, *(s for s in search_path if s in SYSTEM_SCHEMAS))
        return any(self._facts.relation(place, name) is not None for place in places)

    def describe(
        self, sql: str, parameter_types: Sequence[int], session: SessionFacts
    ) -> Description:
        with _logged(sql, session):
            plan = self._plan(sql, parameter_types, session, self._image())
            return Description(tuple(PgType(oid) for oid in plan.parameters), _descriptions(plan))

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any],
        session: SessionFacts,
        parameter_types: Sequence[int] = (),
        cancellation: Cancellation | None = None,
    ) -> CatalogResult:
        with _logged(sql, session):
            image = self._image()
            plan = self._plan(sql, parameter_types, session, image)
            with self._store.using(image, session.database, plan.relations) as snapshot:
                path = snapshot.directory.path(session.search_path, session.current_user)
                context = Context(
                    snapshot, session, cancellation or Cancellation(self._runtime), path
                )
                rows = self._run(plan, self._values(plan, parameters, context), context)
            table = arrow_result(
                plan.columns,
                rows,
                self._types,
                lambda kind, oid: snapshot.directory.name(kind, oid, path),
            )
            result = CatalogResult(_descriptions(plan), table, tuple(context.changes))
            if not parameter_types and is_constant(plan):
                self._keep_constant(sql, result)
            return result

    def known(self, sql: str) -> CatalogResult | None:
        """The answer, if it was given before and can not have changed: that of `SELECT 1`.

        It takes no time, so it may be asked for on an event loop.
        """
        return self._constants.get(sql)

    def _keep_constant(self, sql: str, result: CatalogResult) -> None:
        with self._lock:
            self._constants[sql] = result
            while len(self._constants) > _KEPT_CONSTANTS:
                self._constants.popitem(last=False)

    # --- binding --------------------------------------------------------------------------------

    def _plan(
        self,
        sql: str,
        parameter_types: Sequence[int],
        session: SessionFacts,
        image: CatalogImage,
    ) -> BoundStatement:
        superusers = {role.name for role in image.roles if role.superuser}
        restricted = session.current_user not in superusers
        key = (sql, tuple(parameter_types), session.search_path, restricted)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = bind_statement(
            parse(sql),
            self._facts,
            self._types,
            self._functions,
            self._store.versioned,
            session.search_path,
            tuple(parameter_types),
            restricted=restricted,
        )
        if len(sql) > _LONGEST_KEPT:
            return plan
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        return plan

    # --- running --------------------------------------------------------------------------------

    def _values(
        self, plan: BoundStatement, parameters: Sequence[Any], context: Context
    ) -> dict[str, Any]:
        """Everything that the text leaves open."""
        if len(parameters) < len(plan.parameters):
            message = (
                f"bind message supplies {len(parameters)} parameters,"
                f" but prepared statement requires {len(plan.parameters)}"
            )
            raise _ProtocolViolation(message)
        values = {
            f"p{number}": self._parameter(value, oid, context)
            for number, (value, oid) in enumerate(
                zip(parameters, plan.parameters, strict=False), start=1
            )
        }
        for lookup in plan.lookups:
            try:
                found = context.snapshot.directory.oid(lookup.kind, lookup.name, context.path)
            except CatalogQueryError as error:
                error.position = lookup.position
                raise
            values[lookup.parameter] = found
        for name in plan.session:
            values[f"s_{name}"] = _session_value(name, context, self._runtime.now)
        # An argument that a function ignores leaves no trace, and DuckDB refuses to be told more.
        return {name: value for name, value in values.items() if name in plan.open}

    def _parameter(self, value: Any, oid: int, context: Context) -> Any:
        if oid in REG_TYPES and isinstance(value, str):
            return context.snapshot.directory.oid(oid, value, context.path)
        return value

    def _run(self, plan: BoundStatement, values: Mapping[str, Any], context: Context) -> list[Any]:
        text = plan.text.replace(HERE, context.snapshot.schema)
        cursor = self._store.cursor()
        self._calls.enter(context)
        try:
            with context.cancellation.calling(cursor.interrupt):
                if context.cancellation.cancelled:
                    raise QueryCancelled("canceling statement due to user request")
                cursor.execute(text, dict(values))
                return self._fetched(cursor, context)
        except duckdb.Error as error:
            raise self._translated(error, context, text) from error
        finally:
            self._calls.leave()
            cursor.close()

    def _fetched(self, cursor: duckdb.DuckDBPyConnection, context: Context) -> list[Any]:
        """All rows, if they fit into the budget. Taken in pieces, so that it can be stopped."""
        rows: list[Any] = []
        size = 0
        while piece := cursor.fetchmany(_PIECE):
            if context.cancellation.cancelled:
                raise QueryCancelled("canceling statement due to user request")
            texts = sum(len(v) for row in piece for v in row if isinstance(v, str))
            size += texts + _BYTES_PER_VALUE * len(piece) * (1 + len(piece[0]))
            if size > self._most_bytes:
                raise OutOfMemory.of("the result of a query over the system catalogs is too large")
            rows += piece
        return rows

    def _translated(self, error: duckdb.Error, context: Context, text: str) -> WaterclockError:
        if context.failure is not None:
            return context.failure
        if context.cancellation.cancelled:
            return QueryCancelled("canceling statement due to user request")
        _log.warning("DuckDB could not run a query: %s", type(error).__name__)
        _log.debug("DuckDB could not run %r: %s", text, error)
        return translated(error)


def is_constant(plan: BoundStatement) -> bool:
    """Whether the answer depends on nothing but the text.

    A function may depend on anything, so only casts are let through. A regclass shows a name.
    """
    if plan.relations or plan.lookups or plan.session or plan.open or plan.parameters:
        return False
    if any(type_.oid in REG_TYPES for _, type_ in plan.columns):
        return False
    return set(_CALL.findall(_STRING.sub("", plan.text))) <= {"CAST"}


class _ProtocolViolation(CatalogQueryError):
    sqlstate = "08P01"


def translated(error: duckdb.Error) -> CatalogQueryError:
    """DuckDB's error as PostgreSQL's. Its own text is not shown."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return OutOfMemory.of("a query over the system catalogs needs too much memory")
    if TOO_MANY_ROWS in text:
        return ProgramLimitExceeded(
            "generate_series() has too many rows beside the system catalogs",
            hint="Ask for fewer, or read the catalogs in a query of their own.",
        )
    if STEP_OF_ZERO in text:
        return InvalidValue("step size cannot equal zero")
    if "GROUP BY" in text:
        message = "column must appear in the GROUP BY clause or be used in an aggregate function"
        return GroupingFault(message)
    if "More than one row returned by a subquery" in text:
        return TooManyRows("more than one row returned by a subquery used as an expression")
    if isinstance(error, duckdb.InterruptException):
        return QueryCancelled("canceling statement due to user request")
    if isinstance(error, duckdb.ConversionException):
        return InvalidText("invalid input syntax")
    if isinstance(error, duckdb.OutOfRangeException):
        return NumberOutOfRange("value out of range")
    if "regex" in text.lower() or "missing )" in text or "no argument for repetition" in text:
        return InvalidRegularExpression("invalid regular expression")
    if isinstance(error, duckdb.BinderException | duckdb.NotImplementedException):
        return FeatureNotSupported("the query is not supported over the system catalogs")
    if isinstance(error, duckdb.InvalidInputException):
        return InvalidValue("invalid value in a query over the system catalogs")
    return CatalogQueryError("the query over the system catalogs could not be answered")


def _descriptions(plan: BoundStatement) -> tuple[ColumnDescription, ...]:
    return tuple(ColumnDescription(name, type_) for name, type_ in plan.columns)


def _session_value(name: str, context: Context, now: Callable[[], datetime.datetime]) -> Any:
    session = context.session
    match name:
        case "version":
            return VERSION
        case "mz_version":
            return MZ_VERSION
        case "database":
            return session.database
        case "current_user":
            return session.current_user
        case "session_user":
            return session.session_user
        case "pid":
            return session.backend_pid
        case "client_address":
            return session.client_address
        case "schema":
            return _current_schema(context.snapshot, session)
        case "now" | "started":
            moment = session.now if name == "now" else session.started
            moment = moment or now()
            return moment.astimezone(datetime.UTC).replace(tzinfo=None)
        case "zone":
            _zone(session)
            return session.settings.get("timezone", "UTC")
        case "local_now":
            moment = session.now or now()
            return moment.astimezone(_zone(session)).replace(tzinfo=None)
        case _:
            raise AssertionError(f"no session value is called {name}")


def _zone(session: SessionFacts) -> datetime.tzinfo:
    """The zone in which the session tells times."""
    name = session.settings.get("timezone", "UTC")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise FeatureNotSupported(
            f'the local time in the zone "{name}" is not supported in catalog queries'
        ) from None


def _current_schema(snapshot: Snapshot, session: SessionFacts) -> str | None:
    """The first schema of the search path that exists."""
    existing = set(snapshot.directory.schemas.values())
    for name in session.search_path:
        actual = session.current_user if name == "$user" else name
        if actual in existing:
            return actual
    return None


class _logged:
    """Tells the log of a query that failed, and who sent it."""

    def __init__(self, sql: str, session: SessionFacts) -> None:
        self._sql, self._session = sql, session

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, WaterclockError):
            _log.warning(
                "catalog query failed: application_name=%r sqlstate=%s",
                self._session.application_name,
                error.sqlstate,
            )
            _log.debug("catalog query failed: error=%s query=%r", error, self._sql)
