"""Blanks in the text of arrays: PostgreSQL's six, and no others of Unicode's many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named

TEXTS = PgType(1009)


@pytest.mark.parametrize("element", ["\x1c", "\x85", "\u2028", "\u00a0", " ", "\x0b", "", "a\x1f"])
def test_an_element_of_blanks_reads_back(element: str) -> None:
    given = pa.array([[element], None, []], pa.list_(pa.string()))
    text = encode_text(given, TEXTS, zone_named("UTC"))
    assert decode_text(text, TEXTS, zone_named("UTC")).to_pylist() == given.to_pylist()
