"""Every SQL example of the docs is a statement that the parser takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.parser import parse_statements

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(text, id=f"{file.stem}-{number}")
    for file in sorted(DOCS.rglob("*.md"))
    for number, text in enumerate(FENCE.findall(file.read_text()), start=1)
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_statements(text: str) -> None:
    parsed = parse_statements(text)
    assert len(parsed) == text.count(";")
    assert not any(isinstance(each.statement, Unsupported) for each in parsed)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5
