"""What the engine says, and what a user is told of it."""

from __future__ import annotations

import errno
import logging
import os

import pytest
from pyspark.errors import PySparkException

from waterclock.compute.faults import INTERNAL, EngineFault, Report, fault_of, reason, told


def of(condition: str | None, text: str = "", **parameters: str) -> tuple[str, str]:
    found = reason(Report(condition, parameters, text))
    return found.sqlstate, found.message


@pytest.mark.parametrize(
    ("condition", "parameters", "expected"),
    [
        ("DIVIDE_BY_ZERO", {"config": "x"}, ("22012", "division by zero")),
        ("REMAINDER_BY_ZERO", {}, ("22012", "division by zero")),
        ("CAST_OVERFLOW", {"targetType": '"INT"'}, ("22003", "integer out of range")),
        ("CAST_OVERFLOW", {"targetType": '"DECIMAL(3,0)"'}, ("22003", "numeric field overflow")),
        ("ARITHMETIC_OVERFLOW", {"message": "long overflow"}, ("22003", "bigint out of range")),
        ("ARITHMETIC_OVERFLOW", {"message": "overflow"}, ("22003", "value out of range")),
        ("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", {}, ("22003", "numeric field overflow")),
        (
            "CAST_INVALID_INPUT",
            {"expression": "'x1'", "targetType": '"INT"'},
            ("22P02", 'invalid input syntax for type integer: "x1"'),
        ),
        (
            "CAST_INVALID_INPUT",
            {"expression": "'2024-13-01'", "targetType": '"DATE"'},
            ("22008", 'date/time field value out of range: "2024-13-01"'),
        ),
        (
            "SCALAR_SUBQUERY_TOO_MANY_ROWS",
            {},
            ("21000", "more than one row returned by a subquery used as an expression"),
        ),
        (
            "USER_RAISED_EXCEPTION",
            {"errorMessage": "2201E cannot take logarithm of zero"},
            ("2201E", "cannot take logarithm of zero"),
        ),
        ("USER_RAISED_EXCEPTION", {"errorMessage": "oops"}, (INTERNAL.sqlstate, INTERNAL.message)),
        ("UNRESOLVED_ROUTINE", {}, (INTERNAL.sqlstate, INTERNAL.message)),
        (
            "RECURSION_LEVEL_LIMIT_EXCEEDED",
            {},
            ("54000", "a recursive query took too many steps"),
        ),
    ],
)
def test_a_named_error(
    condition: str, parameters: dict[str, str], expected: tuple[str, str]
) -> None:
    assert of(condition, **parameters) == expected


def test_correlation_that_can_not_be_resolved_is_not_supported() -> None:
    state, _ = of("UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.CORRELATED_COLUMN_IS_NOT_ALLOWED")
    assert state == "0A000"


def test_errors_without_a_name() -> None:
    assert of(None, "java.lang.ArithmeticException: long overflow")[0] == "22003"
    assert of(None, "java.lang.OutOfMemoryError: Java heap space")[0] == "53200"
    assert of(None, "java.io.IOException: No space left on device")[0] == "53100"
    assert of(None, "java.lang.NullPointerException")[0] == "XX000"


def test_a_full_disk_under_our_own_files_is_told_like_the_engines() -> None:
    with pytest.raises(EngineFault) as caught, told():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.sqlstate == "53100"
    with pytest.raises(ConnectionRefusedError), told():
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def test_what_the_engine_said_is_logged_at_debug_only_and_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        fault = fault_of(PySparkException("[UNRESOLVED_COLUMN] no `t1`.`c7` in `u5`"))
    assert "u5" not in f"{fault} {fault.detail} {fault.hint}"
    at_debug = [r for r in caplog.records if r.levelno == logging.DEBUG]
    others = [r for r in caplog.records if r.levelno > logging.DEBUG]
    assert any("u5" in r.getMessage() for r in at_debug)
    assert any("UNRESOLVED_COLUMN" in r.getMessage() for r in others)
    assert not any("u5" in r.getMessage() for r in others)


def test_errors_leave_the_engine_as_faults() -> None:
    with pytest.raises(EngineFault, match="division by zero") as caught, told():
        raise PySparkException("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`")
    assert caught.value.sqlstate == "22012"
    with pytest.raises(ValueError, match="not the engine"), told():
        raise ValueError("not the engine")
