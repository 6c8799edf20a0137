"""Running SQL for one HTTP request, and its results as values that JSON can hold.

Without parameters a text may have several statements, which are one transaction as in PostgreSQL's
simple protocol; with parameters it has one. What was answered before an error is returned beside
the error. A result is held as a whole until it is sent, so its size is bounded.

COPY and SUBSCRIBE are refused: a request has one answer, and they have a stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, assert_never

import msgspec

from waterclock.adapter.api import (
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Notice,
    Response,
    Rows,
    Session,
)
from waterclock.errors import WaterclockError
from waterclock.http.values import BadParameter, Texts, json_rows, parameter, type_name
from waterclock.model.manner import IntervalStyle, Manner
from waterclock.sql.errors import SqlFault

MAX_RESULT_BYTES = 256 * 1024 * 1024
"""Limit on the size of a result, as Arrow."""


class ResultTooLarge(WaterclockError):
    """A result is larger than one HTTP answer may be."""

    sqlstate: ClassVar[str] = "54000"


class NeedsStream(WaterclockError):
    """A statement that only makes sense where data flows for longer than one answer."""

    sqlstate: ClassVar[str] = "0A000"


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str
    type_oid: int


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a statement gave: a command tag, and columns and rows if it is one that has them."""

    tag: str
    columns: list[Column] | None = None
    rows: list[list[Any]] | None = None


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error or a notice, with what PostgreSQL's protocol would tell of it."""

    severity: str
    code: str
    message: str
    position: int | None = None
    detail: str | None = None
    hint: str | None = None


class Answer(msgspec.Struct, omit_defaults=True):
    """The body of the response."""

    results: list[Result]
    error: Fault | None = None
    notices: list[Fault] = msgspec.field(default_factory=list)


def fault_of(error: WaterclockError) -> Fault:
    """The error as JSON tells it."""
    position = error.position if isinstance(error, SqlFault) else None
    return Fault("ERROR", error.sqlstate, error.message, position, error.detail, error.hint)


def fault_of_notice(notice: Notice) -> Fault:
    """The notice as JSON tells it."""
    return Fault(notice.severity, notice.sqlstate, notice.message, None, notice.detail, notice.hint)


async def run(
    session: Session, text: str, parameters: Sequence[msgspec.Raw], texts: Texts, into: list[Result]
) -> None:
    """Run the text, and put each result into the list when it is complete."""
    if parameters:
        responses = _prepared(session, text, parameters, texts)
    else:
        responses = session.run_simple(text)
    try:
        async for response in responses:
            into.append(await _result(session, response, texts))  # noqa: PERF401 (kept on error)
    except WaterclockError:
        await session.fail()
        raise
    finally:
        await _close(responses)


async def _prepared(
    session: Session, text: str, parameters: Sequence[msgspec.Raw], texts: Texts
) -> AsyncIterator[Response]:
    await session.parse("", text, ())
    described = await session.describe_statement("")
    wanted = len(described.parameters)
    if wanted != len(parameters):
        raise BadParameter(f"the statement has {wanted} parameters, and {len(parameters)} came")
    manner = _manner(session)
    scalars = [
        texts.decode(parameter(value, declared), declared, manner)
        for value, declared in zip(parameters, described.parameters, strict=True)
    ]
    await session.bind("", "", scalars, ())
    yield await session.execute("", 0)
    await session.sync()


async def _result(session: Session, response: Response, texts: Texts) -> Result:
    match response:
        case Rows():
            return await _rows(session, response, texts)
        case Done(tag):
            return Result(tag)
        case EmptyQuery():
            return Result("")
        case CopyIn():
            await response.sink.abort()
            raise _needs_stream("COPY")
        case CopyOut():
            await _close(response.batches)
            raise _needs_stream("COPY")
        case _:
            assert_never(response)


async def _rows(session: Session, response: Rows, texts: Texts) -> Result:
    if response.tag == "SUBSCRIBE":
        await _close(response.batches)
        raise _needs_stream("SUBSCRIBE")
    manner = _manner(session)
    types = [column.type for column in response.columns]
    rows: list[list[Any]] = []
    size = 0
    try:
        async for batch in response.batches:
            size += batch.nbytes
            if size > MAX_RESULT_BYTES:
                raise ResultTooLarge(
                    f"the result is larger than {MAX_RESULT_BYTES >> 20} MiB",
                    hint="Ask for fewer rows with LIMIT, or fetch it through the PostgreSQL port.",
                )
            rows += json_rows(batch, types, texts, manner)
    finally:
        await _close(response.batches)
    columns = [Column(c.name, type_name(c.type), c.type.oid) for c in response.columns]
    return Result(
        f"{response.tag} {len(rows)}" if response.counted else response.tag, columns, rows
    )


def _manner(session: Session) -> Manner:
    reported = session.reported_settings()
    style = IntervalStyle(reported["IntervalStyle"])
    return Manner(reported["TimeZone"], style, int(reported.get("extra_float_digits", "1")))


async def _close(batches: object) -> None:
    close = getattr(batches, "aclose", None)
    if close is not None:
        await close()


def _needs_stream(what: str) -> NeedsStream:
    return NeedsStream(
        f"{what} is not possible over HTTP",
        hint="Connect to the PostgreSQL port for that.",
    )
