"""Formats of `to_char` and `to_number` for numbers, taken apart."""

from __future__ import annotations

import pytest

from waterclock.sql.functions.number_formats import parsed
from waterclock.sql.functions.registry import Invalid


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("fm9G999D00", "F 9 , 9 9 9 . 0 0"),
        ("S99 SG PR Th", None),
        ("$9PR", "'$ 9 B"),
        ("rnRNth", "r R t"),
        ("9.99eeee", "9 . 9 9 E"),
        ('9"V9 \\"x\\', "9 'V '9 '  '\" 'x '\\"),
        ('\\"9\\', "'\" 9 '\\"),
        ("Th", "'T 'h"),
    ],
)
def test_a_format(text: str, signs: str | None) -> None:
    if signs is None:
        with pytest.raises(Invalid):
            parsed(text)
    else:
        assert " ".join(parsed(text).parts) == signs


def test_digits_behind_v() -> None:
    assert parsed('"V99"9V099').shift == 2
    assert parsed('"V99"9').shift == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9EEEE9", '"EEEE" must be the last pattern used'),
        ("9EEEEEEEE", 'cannot use "EEEE" twice'),
        ("B9EEEE", '"EEEE" is incompatible with other formats'),
        ("9.9.9", "multiple decimal points"),
        ("9V9.9", 'cannot use "V" and decimal point together'),
        ("9.9V9", 'cannot use "V" and decimal point together'),
        ("S99S", 'cannot use "S" twice'),
        ("MI9S", 'cannot use "S" and "PL"/"MI"/"SG"/"PR" together'),
        ("S9SG", 'cannot use "S" and "SG" together'),
        ("S9PR", 'cannot use "PR" and "S"/"PL"/"MI"/"SG" together'),
        ("9PR9", '"9" must be ahead of "PR"'),
    ],
)
def test_words_that_do_not_go_together(text: str, message: str) -> None:
    with pytest.raises(Invalid) as found:
        parsed(text)
    assert (found.value.sqlstate, found.value.message) == ("42601", message)


def test_a_blank_behind_digits_is_nothing() -> None:
    assert " ".join(parsed("9BEEEE").parts) == "9 b E"


@pytest.mark.parametrize(
    ("text", "digits"), [("9,909.99", 4), ("99V90", 4), ("S.99", 0), ('"99"9', 1)]
)
def test_places_before_the_point(text: str, digits: int) -> None:
    assert parsed(text).whole_digits == digits
