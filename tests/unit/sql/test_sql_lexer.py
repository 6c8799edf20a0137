"""Characters to tokens: PostgreSQL's lexical rules, one by one."""

from __future__ import annotations

import pytest

from waterclock.sql.errors import SqlFault
from waterclock.sql.lexer import lex
from waterclock.sql.tokens import Kind


def values(text: str) -> list[tuple[str, str]]:
    tokens = lex(text)
    assert tokens[-1].kind is Kind.END, tokens[-1].fault
    return [(token.kind.value, token.value) for token in tokens[:-1]]


def fault(text: str) -> SqlFault:
    last = lex(text)[-1]
    assert last.kind is Kind.FAULT
    assert last.fault is not None
    return last.fault


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT Abc", [("word", "select"), ("word", "abc")]),
        ('"Abc" "a""b"', [("quoted name", "Abc"), ("quoted name", 'a"b')]),
        ("ÄB $1", [("word", "Äb"), ("parameter", "1")]),
        ("a$b_1", [("word", "a$b_1")]),
        ("'it''s'", [("string", "it's")]),
        ("'a\\n'", [("string", "a\\n")]),
        ("'a'\n  'b' -- c\n 'd'", [("string", "abd")]),
        ("'a' 'b'", [("string", "a"), ("string", "b")]),
        ("'a' /* x\n */ 'b'", [("string", "a"), ("string", "b")]),
        (r"E'\t\\\'\101\x41\u0041\U00000041''z'", [("string", "\t\\'AAAA'z")]),
        (r"e'\ud83d\ude00'", [("string", "\U0001f600")]),
        (r"E'\xc3\xa4'", [("string", "ä")]),
        (r"U&'d\0061t\+000061'", [("string", "data")]),
        (r"U&'d!0061' UESCAPE '!'", [("string", "da")]),
        (r"U&'\\ ''\00e9'", [("string", "\\ 'é")]),
        ("u & 'a'", [("word", "u"), ("operator", "&"), ("string", "a")]),
        ("B'101' x'1F'", [("bit string", "b101"), ("bit string", "x1F")]),
        ("n'abc'", [("word", "nchar"), ("string", "abc")]),
        ("$$it's$$ $a$ $$ $a$", [("string", "it's"), ("string", " $$ ")]),
        ("$1,$2", [("parameter", "1"), ("operator", ","), ("parameter", "2")]),
        ("$001", [("parameter", "1")]),
        ("1 1. .5 1.5e-3 7E2", [("integer", "1")] + [("decimal", d) for d in
         ("1.", ".5", "1.5e-3", "7E2")]),
        ("1..2", [("integer", "1"), ("operator", ".."), ("integer", "2")]),
        ("a.b", [("word", "a"), ("operator", "."), ("word", "b")]),
        ("a::b:=c=>d", [("word", "a"), ("operator", "::"), ("word", "b"), ("operator", ":="),
         ("word", "c"), ("operator", "=>"), ("word", "d")]),
        ("1+-2", [("integer", "1"), ("operator", "+"), ("operator", "-"), ("integer", "2")]),
        ("a*-b", [("word", "a"), ("operator", "*"), ("operator", "-"), ("word", "b")]),
        ("a@-b", [("word", "a"), ("operator", "@-"), ("word", "b")]),
        ("a<--b\nc", [("word", "a"), ("operator", "<"), ("word", "c")]),
        ("a</*b*/c", [("word", "a"), ("operator", "<"), ("word", "c")]),
        ("a !~~* b", [("word", "a"), ("operator", "!~~*"), ("word", "b")]),
        ("/* a /* b */ c */ d -- e", [("word", "d")]),
        ("a\xa0b", [("word", "a\xa0b")]),
        ("", []),
        (" \t\r\n\f-- x", []),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("select 'abc", 'unterminated quoted string at or near "\'abc"', 8),
        ("select e'abc\\'", "unterminated quoted string at or near \"e'abc\\'\"", 8),
        ("select U&'ab", 'unterminated quoted string at or near "U&\'ab"', 8),
        ('select "abc', 'unterminated quoted identifier at or near ""abc"', 8),
        ('select ""', 'zero-length delimited identifier at or near """"', 8),
        ("select /* a /* b */", 'unterminated /* comment at or near "/* a /* b */"', 8),
        ("select $x$ abc", 'unterminated dollar-quoted string at or near "$x$ abc"', 8),
        ("select b'101", 'unterminated bit string literal at or near "b\'101"', 8),
        ("select x'1", 'unterminated hexadecimal string literal at or near "x\'1"', 8),
        ("select 1_000", 'trailing junk after numeric literal at or near "1_000"', 8),
        ("select 123abc", 'trailing junk after numeric literal at or near "123abc"', 8),
        ("select 1e+", 'trailing junk after numeric literal at or near "1e+"', 8),
        ("select $1a", 'trailing junk after parameter at or near "$1a"', 8),
        ("select $", 'syntax error at or near "$"', 8),
        ("select $abc", 'syntax error at or near "$"', 8),
        ("select {", 'syntax error at or near "{"', 8),
        ("ä \0", 'syntax error at or near "\0"', 3),
        ("select e'\\U0011FFFF'", 'invalid Unicode escape value at or near "\\U0011FFFF"', 10),
        ("select e'\\ud800'", 'invalid Unicode surrogate pair at or near "\'"', 16),
        ("select U&'\\12'", "invalid Unicode escape", 11),
        ("select U&'\\d800'", "invalid Unicode surrogate pair", 16),
        (
            "select U&'x' UESCAPE 3",
            'UESCAPE must be followed by a simple string literal at or near "3"',
            22,
        ),
        (
            'U&"x" uescape',
            "UESCAPE must be followed by a simple string literal at end of input",
            14,
        ),
        (
            "select U&'x' UESCAPE '+'",
            "invalid Unicode escape character at or near \"'+'\"",
            22,
        ),
    ],
)
def test_faults(text: str, message: str, position: int) -> None:
    found = fault(text)
    assert (found.sqlstate, str(found), found.position) == ("42601", message, position)


def test_faults_of_other_classes() -> None:
    escape = fault("select e'\\u12'")
    assert (escape.sqlstate, escape.position) == ("22025", 10)
    assert escape.hint == "Unicode escapes must be \\uXXXX or \\UXXXXXXXX."
    for text, shown in [(r"e'\xff'", "0xff"), (r"e'a\0'", "0x00")]:
        found = fault(text)
        assert (found.sqlstate, found.position) == ("22021", None)
        assert str(found) == f'invalid byte sequence for encoding "UTF8": {shown}'


def test_offsets_count_characters() -> None:
    tokens = lex("é  'ü' \U0001f600")
    assert [(token.start, token.end) for token in tokens] == [(0, 1), (3, 6), (7, 8), (8, 8)]
    assert tokens[1].position == 4


def test_names_are_cut_to_63_bytes() -> None:
    assert lex("a" * 70)[0].value == "a" * 63
    assert lex('"' + "A" * 70 + '"')[0].value == "A" * 63
    # Whole characters only: 31 of two bytes make 62.
    assert lex("ä" * 40)[0].value == "ä" * 31
    assert lex("a" * 70)[0].end == 70


def test_operators_are_not_cut_but_refused() -> None:
    assert "operator too long" in str(fault("select 1 " + "~" * 64 + " 2"))


def test_parameters_too_large_to_be_numbers() -> None:
    assert "parameter number too large" in str(fault("select $" + "9" * 5000))
