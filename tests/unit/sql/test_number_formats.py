"""Formats of `to_char` for numbers, taken apart."""

from __future__ import annotations

import pytest

from waterclock.sql.functions.number_formats import Format, parsed
from waterclock.sql.functions.registry import Refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("999", Format("999", False, "", False, "", "", "")),
        ("FM9,990.09", Format("9,990", True, "09", True, "", "", "")),
        ("S9G999D99", Format("9,999", True, "99", False, "S", "", "")),
        ("99.9S", Format("99", True, "9", False, "s", "", "")),
        ("99MI", Format("99", False, "", False, "m", "", "")),
        ('$9 "pieces"', Format("9", False, "", False, "", "$", " pieces")),
    ],
)
def test_a_format(text: str, expected: Format) -> None:
    assert parsed(text) == expected


def test_where_zeros_begin() -> None:
    assert parsed("9,909").first_zero == 2
    assert parsed("999.00").first_zero is None
    assert parsed("9,909").digits == 4


@pytest.mark.parametrize("text", ["RN", "9.99EEEE", "9V9", "PR", "abc", "S99S", "9th", ".99", "%"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parsed(text)
