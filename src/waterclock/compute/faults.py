"""What the engine says of a computation that failed, in PostgreSQL's words.

Everything that runs Spark SQL for a user does so inside `told()`. An error of the engine comes out
of it as an `EngineFault` with PostgreSQL's message and SQLSTATE. The log has its condition and the
place where it was raised. What the engine said may quote the statement or its data, so it is logged
at `debug` only. Three kinds are told apart:

- errors that our own SQL raises: `RAISE_ERROR` with a text that begins with a SQLSTATE;
- errors that the engine has a name for, such as `DIVIDE_BY_ZERO`: `_KNOWN` says what they mean;
- everything else, which is a defect of ours: XX000, and no internals.

`reason` gives the same texts to errors that become data in a view (`dataflow.failures`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from waterclock.errors import WaterclockError

_log = logging.getLogger(__name__)

_RAISED = "USER_RAISED_EXCEPTION"
_STATED = re.compile(r"(?P<sqlstate>[0-9A-Z]{5}) (?P<message>.+)", re.DOTALL)
_NAMED = re.compile(r"\[(?P<condition>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]")
_SAID = re.compile(rf"\[{_RAISED}\] (?P<text>.*?)(?: SQLSTATE: P0001)?$", re.DOTALL)
_MOST_CAUSES = 20
_MOST_FRAMES = 60
_FRAME = re.compile(r"\s+at [\w.$/<>@-]+\([\w.$: ]*\)")
_THROWN = re.compile(r"(?:: |Caused by: )?(?:[a-z_0-9]+\.)+[\w$]*(?:Exception|Error)\b")


ENGINE_ERRORS = (PySparkException, Py4JJavaError)
"""What the engine raises."""


class EngineFault(WaterclockError):
    """A value, or a whole query, that could not be computed."""

    sqlstate: ClassVar[str] = "XX000"

    @classmethod
    def of(cls, reason: Reason) -> EngineFault:
        error = cls(reason.message, detail=reason.detail, hint=reason.hint)
        error.sqlstate = reason.sqlstate  # type: ignore[misc]
        return error


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something could not be computed."""

    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What the engine says: the name of the error if it has one, its parameters, its text."""

    condition: str | None
    parameters: Mapping[str, str]
    text: str


DIVISION_BY_ZERO = Reason("22012", "division by zero")
TOO_MANY_DIGITS = Reason(
    "22003", "numeric field overflow", "A number has more than 38 digits, which are all there are."
)
INTERNAL = Reason(
    "XX000", "the query could not be computed", hint="The log of the server says why."
)
_TIME = Reason("22008", "date/time field value out of range")
_CORRELATED = Reason(
    "0A000",
    "a subquery that uses columns of the outer query in this place or way is not supported",
    hint="Write it as a join.",
)
_TOO_DEEP = Reason(
    "54001",
    "stack depth limit exceeded",
    "The query is too deeply nested for the engine.",
    "Nest it less deeply, or give Java a larger stack (-Xss in spark.driver.extraJavaOptions).",
)
_OUT_OF_MEMORY = Reason(
    "53200",
    "out of memory",
    "The engine has not enough memory for what was asked.",
    "Ask for less at a time, or give the engine more memory: --spark spark.driver.memory=8g.",
)
_TOO_MUCH_AT_ONCE = Reason(
    "53200",
    "the result is too large",
    "It takes more memory than the engine may hold of one result.",
    "Ask for fewer rows, or raise --spark spark.driver.maxResultSize.",
)
_WORKER_DIED = Reason(
    "58000",
    "a worker process of the engine ended in the middle",
    "What it computed is lost; nothing was changed.",
    "Try again. If that happens again, the machine may have too little memory.",
)

DISK_FULL = Reason(
    "53100",
    "no space left on device",
    hint="Make room on the disk of the data directory: the engine needs some to compute this.",
)
_DISK_FULL_SIGNS = ("No space left on device", "Disk quota exceeded")

RESULT_TOO_LARGE = Reason(
    "54000",
    "the result is too large",
    hint="Ask for fewer rows or columns, or raise the server's setting max_result_bytes.",
)
PATTERN_TOO_SLOW = Reason(
    "54000",
    "matching the pattern takes too many steps",
    hint="Write a pattern with fewer ways to match, or raise the server's setting"
    " max_pattern_steps.",
)
VALUE_TOO_LARGE = Reason(
    "54000",
    "the value is too large",
    hint="Make a shorter value, or raise the server's setting max_value_bytes.",
)
_HINTED = {each.message: each for each in (RESULT_TOO_LARGE, PATTERN_TOO_SLOW, VALUE_TOO_LARGE)}
"""What our own classes raise, by its message: Java gives no hints."""
_NOT_DECORRELATED = (
    "Unable to rewrite domain join",
    "Cannot evaluate expression: outer(",
    "[INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND]",
)
"""How the engine fails where it has not joined a correlated subquery to the query around."""

_KNOWN: Mapping[str, Reason] = {
    "DIVIDE_BY_ZERO": DIVISION_BY_ZERO,
    "REMAINDER_BY_ZERO": DIVISION_BY_ZERO,
    "INTERVAL_DIVIDED_BY_ZERO": DIVISION_BY_ZERO,
    "NUMERIC_VALUE_OUT_OF_RANGE": TOO_MANY_DIGITS,
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": TOO_MANY_DIGITS,
    "DATETIME_FIELD_OUT_OF_BOUNDS": _TIME,
    "DATETIME_OVERFLOW": Reason("22008", "timestamp out of range"),
    "INTERVAL_ARITHMETIC_OVERFLOW": Reason("22008", "interval out of range"),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": Reason(
        "21000", "more than one row returned by a subquery used as an expression"
    ),
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": _CORRELATED,
    "UNSUPPORTED_CORRELATED_REFERENCE_DATA_TYPE": _CORRELATED,
    "SPARK_JOB_CANCELLED": Reason("57014", "canceling statement due to user request"),
    "MALFORMED_CHARACTER_CODING": Reason("22021", 'invalid byte sequence for encoding "UTF8"'),
    "COLLECTION_SIZE_LIMIT_EXCEEDED": Reason("54000", "requested array is too large"),
    "MALFORMED_RECORD_IN_PARSING": Reason("22P02", "invalid input syntax for type json"),
    "INVALID_JSON_ROOT_FIELD": Reason("22P02", "invalid input syntax for type json"),
    "VARIANT_SIZE_LIMIT": Reason("54000", "a JSON value is too large"),
    "DUPLICATED_MAP_KEY": Reason("22030", "duplicate JSON object key value"),
    "NULL_MAP_KEY": Reason("22004", "field name must not be null"),
    "INVALID_BITMAP_POSITION": _TIME,
    "UNABLE_TO_ACQUIRE_MEMORY": _OUT_OF_MEMORY,
    "INVALID_TIMEZONE": Reason("22023", "time zone not recognized"),
    "RECURSION_LEVEL_LIMIT_EXCEEDED": Reason(
        "54000",
        "a recursive query took too many steps",
        hint="If rows lead back to where they came from, keep the path and leave them out.",
    ),
    "RECURSION_ROW_LIMIT_EXCEEDED": Reason("54000", "a recursive query has too many rows"),
}
_SIGNS: Mapping[str, Reason] = {
    "StackOverflowError": _TOO_DEEP,
    "Max iterations": _TOO_DEEP,
    **dict.fromkeys(_DISK_FULL_SIGNS, DISK_FULL),
    "OutOfMemoryError": _OUT_OF_MEMORY,
    "spark.driver.maxResultSize": _TOO_MUCH_AT_ONCE,
    "Python worker exited unexpectedly": _WORKER_DIED,
}
"""What is in the text of errors that have no name of their own."""
_SQL_NAMES = {
    **{"TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint"},
    **{"FLOAT": "real", "DOUBLE": "double precision", "BOOLEAN": "boolean", "STRING": "text"},
    **{"DATE": "date", "TIMESTAMP": "timestamp with time zone", "BINARY": "bytea"},
    **{"TIMESTAMP_NTZ": "timestamp without time zone"},
}
_OF_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})


def reason(report: Report) -> Reason:
    """What a user is told of it."""
    name = (report.condition or "").partition(".")[0]
    match name:
        case "USER_RAISED_EXCEPTION":
            return raised(report.parameters.get("errorMessage", ""))
        case "CAST_INVALID_INPUT":
            return _unreadable(report)
        case "CAST_OVERFLOW" | "CAST_OVERFLOW_IN_TABLE_INSERT":
            return out_of_range(_target(report))
        case "ARITHMETIC_OVERFLOW" | "BINARY_ARITHMETIC_OVERFLOW":
            return out_of_range(_overflown(report))
    if name in _KNOWN:
        return _KNOWN[name]
    if name.startswith("INTERNAL_ERROR") and any(each in report.text for each in _NOT_DECORRELATED):
        return _CORRELATED
    return _unnamed(report.text)


def raised(text: str) -> Reason:
    """Of a text that our own SQL raises."""
    stated = _STATED.fullmatch(text)
    if stated is None:
        return INTERNAL
    return _HINTED.get(stated["message"]) or Reason(stated["sqlstate"], stated["message"])


def out_of_range(sql_name: str) -> Reason:
    if sql_name.upper().startswith(("DECIMAL", "NUMERIC")):
        return TOO_MANY_DIGITS
    return Reason("22003", f"{_SQL_NAMES.get(sql_name.upper(), sql_name.lower())} out of range")


OVERFLOW = out_of_range("value")
"""Of a number that is too large for its type, which the engine does not tell."""


def unreadable(sql_name: str, text: str | None = None) -> Reason:
    """Of a text that is none of a type's; our own SQL has asked for the form of times before."""
    shown = "" if text is None else f': "{text}"'
    if sql_name.upper() in _OF_TIMES or sql_name.upper().startswith("TIME("):
        return Reason("22008", f"date/time field value out of range{shown}")
    if sql_name.upper().startswith("DECIMAL"):
        sql_name = "numeric"
    name = _SQL_NAMES.get(sql_name.upper(), sql_name.lower())
    return Reason("22P02", f"invalid input syntax for type {name}{shown}")


def _unreadable(report: Report) -> Reason:
    text = report.parameters.get("expression", "")
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return unreadable(_target(report), text[1:-1])
    return unreadable(_target(report))


def _target(report: Report) -> str:
    return report.parameters.get("targetType", "value").strip('"')


def _overflown(report: Report) -> str:
    word = report.parameters.get("message", "").partition(" ")[0]
    names = {"integer": "INT", "long": "BIGINT", "short": "SMALLINT"}
    return names.get(word, "value")


def _unnamed(text: str) -> Reason:
    for sign, meaning in _SIGNS.items():
        if sign in text:
            return meaning
    if "long overflow" in text or "integer overflow" in text:
        return OVERFLOW
    return INTERNAL


_TOO_LARGE = re.compile(
    r"java\.lang\.OutOfMemoryError|\bMemoryError\b|ArrowMemoryError|_ArrayMemoryError"
    r"|Python worker exited unexpectedly"  # what the system kills when memory is scarce
    r"|spark\.driver\.maxResultSize"
    r"|ArrowCapacityError|offset overflow while concatenating"  # more bytes than an array can have
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether less data might have been computed: memory was short, or something too large."""
    return isinstance(error, MemoryError) or bool(_TOO_LARGE.search(str(error)))


# --- At the border --------------------------------------------------------------------------------


@contextmanager
def told() -> Iterator[None]:
    """Whatever the engine raises inside becomes an `EngineFault`, and a line of the log."""
    try:
        yield
    except ENGINE_ERRORS as error:
        raise fault_of(error) from None
    except OSError as error:
        if not any(sign in str(error) for sign in _DISK_FULL_SIGNS):
            raise
        raise EngineFault.of(DISK_FULL) from error


def fault_of(error: PySparkException | Py4JJavaError) -> EngineFault:
    """The error as a user may see it; what the engine said of it is logged."""
    report = _reported(error)
    found = reason(report)
    level = logging.ERROR if found is INTERNAL else logging.INFO
    where = _frames(error) if found is INTERNAL else ""
    _log.log(level, "the engine raised %s (%s)%s", report.condition, found.sqlstate, where)
    _log.debug("the engine says: %s", report.text)
    return EngineFault.of(found)


def _frames(error: PySparkException | Py4JJavaError) -> str:
    """The types of what was raised and where, without the messages: they may quote the query."""
    if isinstance(error, Py4JJavaError):
        trace = str(error)
    else:
        trace = str(getattr(error, "_stackTrace", "") or "")
    found = []
    for line in trace.splitlines():
        if (at := _FRAME.match(line)) is not None:
            found.append(f"\n{at[0]}")
        elif (raised := _THROWN.match(line)) is not None:
            found.append(f"\n{raised[0]}")
    return "".join(found[:_MOST_FRAMES])


def _reported(error: PySparkException | Py4JJavaError) -> Report:
    if isinstance(error, Py4JJavaError):
        return _from_java(error.java_exception)
    condition = error.getCondition()
    text = str(error)
    if condition is None:
        named = _NAMED.search(text)
        condition = None if named is None else named["condition"]
    return Report(condition, error.getMessageParameters() or {}, text)


def _from_java(thrown: Any) -> Report:
    """From the innermost cause that has a name; the engine wraps what its tasks throw."""
    texts: list[str] = []
    condition: str | None = None
    for _ in range(_MOST_CAUSES):
        if thrown is None:
            break
        text = str(thrown.toString())
        texts.append(text)
        named = _NAMED.search(text)
        if named is not None:
            condition = named["condition"]
        thrown = thrown.getCause()
    parameters: dict[str, str] = {}
    if condition == _RAISED:
        said = _SAID.search(texts[-1])
        parameters["errorMessage"] = "" if said is None else said["text"]
    return Report(condition, parameters, "; caused by ".join(texts))
