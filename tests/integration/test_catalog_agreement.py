"""What the system relations' engine computes beside a real PostgreSQL, on generated arguments.

Both sides are asked the same expressions over constants. Ours may refuse (0A000), or know no such
function or cast; what it answers must be the same. Several are asked at once, and apart if one of
them fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

import psycopg
import pytest

from waterclock.catalog.system import types as t
from waterclock.catalog.system.answerer import DuckDbAnswerer
from waterclock.catalog.system.binding.functions import ANY, ANYARRAY, ANYELEMENT, value_functions
from waterclock.catalog.system.session import SessionFacts
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import NUMERIC
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import UTC_ZONE
from waterclock.testing.postgres_image import image_of
from waterclock.testing.services import PostgresServer
from waterclock.testing.sql_oracle.arguments import VALUES, Value, combined

pytestmark = pytest.mark.service

AT_ONCE = 16
NAMES = {t.TEXT: "text", t.INT4: "int4", t.INT8: "int8", t.FLOAT8: "float8", t.NUMERIC: "numeric"}
GENERIC = {ANY: ("int4", "text"), ANYARRAY: ("_int4", "_text"), ANYELEMENT: ("int4", "text")}
SPELLED = {"_int4": "int4[]", "_text": "text[]"}
LEFT_OUT = {"random", "unnest", "position"}
"""Chance; what gives rows; and a form that is not written as a call."""
KINDS = (
    *("int2", "int4", "int8", "numeric", "float4", "float8", "bool", "text", "date", "time"),
    *("timestamp", "timestamptz", "interval", "uuid", "bytea", "jsonb", "_int4", "_text"),
)
TARGETS = (*KINDS[:16], "json", "name", "char(4)", "varchar(3)", "oid")
OPERATORS = {
    **{("timestamp", "interval"): "+-", ("timestamptz", "interval"): "+-", ("date", "date"): "-"},
    **{("date", "interval"): "+-", ("timestamp", "timestamp"): "-", ("date", "int4"): "+-"},
    **{("timestamptz", "timestamptz"): "-", ("interval", "interval"): "+-"},
    **{("int4", "int4"): "+-*/%&|#^", ("int8", "int8"): "+-*/%", ("int2", "int4"): "+-*/"},
    **{("float8", "float8"): "+-*/^", ("numeric", "numeric"): "+-*/%", ("int4", "numeric"): "*/"},
    **{("interval", "float8"): "*/", ("float4", "float8"): "+-*/"},
}
REFUSALS = ("!0A000", "!42883", "!42846")


@dataclass
class Both:
    """The two sides, and what was found."""

    connection: psycopg.Connection
    answerer: DuckDbAnswerer
    session: SessionFacts
    same: int = 0
    differences: list[tuple[str, str | None, str | None]] = field(default_factory=list)

    def compare(self, expressions: list[str]) -> None:
        theirs, ours = (_each(expressions, ask) for ask in (self._theirs, self._ours))
        for one in zip(expressions, ours, theirs, strict=True):
            self._note(*one)

    def _theirs(self, query: str) -> list[str | None] | str:
        found = self.connection.pgconn.exec_(query.encode())
        if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
            state = found.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            assert state is not None
            return f"!{state.decode()}"
        cells = [found.get_value(0, n) for n in range(found.nfields)]
        return [None if each is None else f"={each.decode()}" for each in cells]

    def _ours(self, query: str) -> list[str | None] | str:
        try:
            found = self.answerer.execute(query, [], self.session)
        except WaterclockError as error:
            return f"!{error.sqlstate}"
        texts = []
        for column, described in zip(found.rows.columns, found.columns, strict=True):
            [text] = encode_text(column.chunk(0), described.type, UTC_ZONE).to_pylist()
            if text is not None and described.type.oid == NUMERIC.oid:
                text = f"{Decimal(text).normalize():f}"
            texts.append(None if text is None else f"={text}")
        return texts

    def _note(self, expression: str, ours: str | None, theirs: str | None) -> None:
        if ours is not None and ours in REFUSALS:
            return
        if ours == theirs or _is_same_error(ours, theirs) or _is_same_number(ours, theirs):
            self.same += 1
        else:
            self.differences.append((expression, ours, theirs))


def _each(expressions: list[str], ask: Callable[[str], list[str | None] | str]) -> list[str | None]:
    """What a side answers to each: to all at once, or one by one if any of them fails."""
    found = ask("SELECT " + ", ".join(expressions))
    if isinstance(found, list):
        return found
    if len(expressions) == 1:
        return [found]
    return [answer for each in expressions for answer in _each([each], ask)]


def _is_same_error(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or not ours.startswith("!"):
        return False
    # An error where PostgreSQL has an answer is no answer, and so no wrong one.
    return theirs.startswith("=") or ours[:3] == theirs[:3] or theirs == "!42846"


def _is_same_number(ours: str | None, theirs: str | None) -> bool:
    """Zeros behind the last digit of a numeric are not kept."""
    try:
        return Decimal((ours or "")[1:]) == Decimal((theirs or "")[1:])
    except ArithmeticError:
        return False


@pytest.fixture(scope="module")
def both(postgres_server: PostgresServer) -> Iterator[Both]:
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE agreement LOCALE 'C.UTF-8' TEMPLATE template0")
    with psycopg.connect(postgres_server.conninfo("agreement"), autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        image = image_of(connection)
        answerer = DuckDbAnswerer(lambda: image)
        session = SessionFacts(
            current_user="postgres",
            session_user="postgres",
            database="agreement",
            backend_pid=1,
            application_name="agreement",
            settings={"search_path": "public"},
        )
        yield Both(connection, answerer, session)
        answerer.close()


def _constant(value: Value, kind: str) -> str:
    spelled = SPELLED.get(kind, kind)
    if value is None:
        return f"NULL::{spelled}"
    escaped = value.replace("'", "''")
    return f"'{escaped}'::{spelled}"


def _function_calls() -> Iterator[str]:
    for number, function in enumerate(value_functions()):
        kinds = {*NAMES, *GENERIC}
        is_other = not set(function.arguments) <= kinds or not function.arguments
        if is_other or function.name in LEFT_OUT:
            continue
        is_generic = bool(set(function.arguments) & set(GENERIC))
        for choice in (0, 1) if is_generic else (0,):
            types = [NAMES.get(oid) or GENERIC[oid][choice] for oid in function.arguments]
            for row in combined([VALUES[each] for each in types], number, 9):
                if function.many and any(len(each or "") > 7 for each in row):
                    continue  # PostgreSQL would make as many rows
                values = ", ".join(map(_constant, row, types))
                call = f"{function.name}({values})"
                yield f"array(SELECT {call})" if function.many else call


def _casts() -> Iterator[str]:
    for kind in KINDS:
        for value in VALUES[kind][:12]:
            constant = _constant(value, kind)
            yield constant
            for target in TARGETS:
                yield f"({constant})::{SPELLED.get(target, target)}"


def _operations() -> Iterator[str]:
    for (left, right), operators in OPERATORS.items():
        for operator in operators:
            for one, other in combined([VALUES[left], VALUES[right]], 2, 9):
                yield f"({_constant(one, left)} {operator} {_constant(other, right)})"
    for one, other in combined([VALUES["int4"]] * 2, 2, 12):
        yield f"({_constant(one, 'int4')} << {_constant(other, 'int4')})"
        yield f"({_constant(one, 'int8')} >> {_constant(other, 'int4')})"
    for kind in KINDS[:15]:
        for one, other in combined([VALUES[kind]] * 2, 3, 9):
            yield f"({_constant(one, kind)} = {_constant(other, kind)})"
            yield f"({_constant(one, kind)} < {_constant(other, kind)})"
    for kind in ("date", "timestamp", "timestamptz", "interval", "time"):
        for value in VALUES[kind][:7]:
            for name in ("year", "month", "day", "hour", "second", "epoch", "dow", "week"):
                yield f"extract({name} FROM {_constant(value, kind)})"
    for kind in ("int4", "text", "numeric", "float8", "bool"):
        for value in VALUES[kind][:6]:
            yield f"to_jsonb({_constant(value, kind)})"
            yield f"json_build_array({_constant(value, kind)})"


@pytest.mark.parametrize("family", [_function_calls, _casts, _operations])
def test_what_is_answered_is_what_postgres_answers(
    both: Both, family: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", logger="waterclock")
    both.same, both.differences = 0, []
    assert callable(family)
    expressions = list(family())
    for at in range(0, len(expressions), AT_ONCE):
        both.compare(expressions[at : at + AT_ONCE])
    assert both.differences == []
    assert both.same > 0.2 * len(expressions)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '2024-01-01 10:00'::timestamptz FROM pg_class",
        "SELECT now()::text FROM pg_class",
        "SELECT '1 mon'::interval FROM pg_class",
        "SELECT power(2, 3.5) FROM pg_class",
        "SELECT 1.5 / 3 FROM pg_class",
        "SELECT reltuples::text FROM pg_class",
        "SELECT DATE '2024-01-01' + interval '1 day' FROM pg_class",
    ],
)
def test_what_may_differ_is_refused_by_name(both: Both, query: str) -> None:
    with pytest.raises(WaterclockError, match="not supported") as caught:
        both.answerer.execute(query, [], both.session)
    assert caught.value.sqlstate == "0A000"


def test_texts_are_not_made_endlessly_long(both: Both) -> None:
    for call in ("repeat('a', 2000000000)", "lpad('a', 2000000000)", "rpad('a', 2000000000, 'b')"):
        with pytest.raises(WaterclockError) as caught:
            both.answerer.execute(f"SELECT {call} FROM pg_class", [], both.session)
        assert caught.value.sqlstate == "54000"
