"""What is in the log of an exception: its type and where it was raised, not what it says."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from waterclock.errors import WaterclockError
from waterclock.server.logs import begin_logging

SECRET = "hunter2-statement-text"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("waterclock")
    handlers, level, own = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(own)


def parse() -> None:
    try:
        raise ValueError(f"can not read {SECRET}")
    except ValueError as error:
        raise WaterclockError(f"syntax error at {SECRET}") from error


@pytest.mark.parametrize("logger", ["waterclock.adapter", "asyncio", "sqlglot"])
def test_messages_of_exceptions_are_not_logged(logger: str) -> None:
    stream = io.StringIO()
    begin_logging("info", stream)
    try:
        parse()
    except WaterclockError:
        logging.getLogger(logger).exception("a request failed")
    told = stream.getvalue()
    assert SECRET not in told
    assert "a request failed" in told
    assert "in parse" in told
    assert "waterclock.errors.WaterclockError" in told
    assert "builtins.ValueError" in told


def test_they_are_at_debug() -> None:
    stream = io.StringIO()
    begin_logging("debug", stream)
    try:
        parse()
    except WaterclockError:
        logging.getLogger("waterclock.adapter").exception("a request failed")
    assert SECRET in stream.getvalue()
