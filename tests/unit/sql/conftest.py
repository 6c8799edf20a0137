"""What the tests of the parser share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.sql.ast import Statement
from waterclock.sql.errors import SqlFault
from waterclock.sql.parser import parse_statements

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


@pytest.fixture
def parse() -> Parse:
    """The one statement of a text."""

    def one(text: str) -> Statement:
        (parsed,) = parse_statements(text)
        return parsed.statement

    return one


@pytest.fixture
def refuse() -> Refuse:
    """The error that a text is refused with."""

    def error(text: str) -> SqlFault:
        with pytest.raises(SqlFault) as raised:
            parse_statements(text)
        return raised.value

    return error
