"""Laws of the lexer and the parser, over generated text."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waterclock.sql.ast import CreateStatement
from waterclock.sql.budget import TooComplex
from waterclock.sql.errors import SqlFault
from waterclock.sql.lexer import lex
from waterclock.sql.parser import Parsed, parse_statements
from waterclock.sql.printing import create_text
from waterclock.sql.quoting import quote_ident, quote_literal
from waterclock.sql.tokens import Kind
from waterclock.testing.examples import examples

WORDS = """
select create table view source from as of with insert into values default set to begin index on key
format include envelope for tables subscribe explain plan copy stdin grant role alter drop if exists
not null uescape secret options nulls first prepare execute fetch declare cursor show comment is
revoke all a int varchar é
"""
MARKS = """
( ) [ ] , ; . = * - + :: $1 $x$ $$ 'a' ' " "A" e'\\ 1 1.5 1e -- /* */ u&' b' x' \\
"""
FRAGMENTS = [*WORDS.split(), *MARKS.split(), "\n", "\0"]

texts = st.one_of(
    st.text(),
    st.text(st.sampled_from("'\"$eEuU&xXbB\\-/*a1. \n;()+_ä"), max_size=30),
    st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(" ".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join),
    st.binary().map(lambda raw: raw.decode("utf-8", "replace")),
)


@examples(100)
@given(texts)
def test_tokens_cover_the_text(text: str) -> None:
    tokens = lex(text)
    assert [token.kind in (Kind.END, Kind.FAULT) for token in tokens].index(True) == len(tokens) - 1
    end = 0
    for token in tokens:
        assert end <= token.start <= token.end <= len(text)
        between = lex(text[end : token.start])
        assert [blank.kind for blank in between] == [Kind.END], "only blanks between tokens"
        end = token.end
    assert end == len(text) or tokens[-1].start == len(text)


@examples(100)
@given(texts)
def test_a_token_alone_is_the_same_token(text: str) -> None:
    for token in lex(text)[:-1]:
        if token.kind is Kind.WORD and token.value == "nchar":
            continue  # of n'..', which is two tokens
        alone = lex(text[token.start : token.end])[0]
        assert (alone.kind, alone.value) == (token.kind, token.value)


@examples(100)
@given(texts)
@example("select e'\\ud800\\'")
@example("(" * 100_000)
@example("create source s from kafka connection k (a (" + "(" * 100_000)
@example("$" + "9" * 100_000)
@example("fetch " + "9" * 100_000)
@example("'" + "''" * 100_000)
@example("/*" * 100_000)
@example("with a as (" * 10_000)
def test_parsing_gives_statements_or_a_fault(text: str) -> None:
    found: tuple[Parsed, ...] = ()
    fault: SqlFault | None = None
    too_complex: TooComplex | None = None
    try:
        found = parse_statements(text)
    except SqlFault as raised:
        fault = raised
    except TooComplex as raised:
        too_complex = raised
    if too_complex is not None:
        assert "max_nesting_depth" in str(too_complex.hint)
        return
    if fault is not None:
        assert fault.position is None or 1 <= fault.position <= len(text) + 1
        assert fault.sqlstate != "XX000"
    end = 0
    for parsed in found:
        assert parsed.start >= end
        end = parsed.start + len(parsed.text)
        assert text[parsed.start : end] == parsed.text
        assert parsed.text.strip() == parsed.text != ""


STATEMENTS = [
    "select ';' as \"a;b\"",
    "begin",
    "insert into t values ($1, $$;$$) returning a",
    "create table t (a int default 1, b text)",
    "create source s from load generator counter (tick interval '1s')",
    "vacuum t",
    "subscribe t with (progress) as of 5",
    "create function f() returns int begin atomic select 1; end",
    "set x = 1",
    "grant select on t to r",
]
separators = st.sampled_from([";", " ; ", ";\n-- ;\n", ";;", "; /* ; */ ;"])


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), separators), max_size=6), st.booleans())
def test_a_text_is_split_into_its_statements(parts: list[tuple[str, str]], closed: bool) -> None:
    text = "".join(statement + separator for statement, separator in parts)
    if parts and not closed:
        text = text[: len(text) - len(parts[-1][1])]
    found = parse_statements(text)
    assert [parsed.text for parsed in found] == [statement for statement, _ in parts]
    for parsed in found:
        (alone,) = parse_statements(parsed.text)
        assert replace(alone, start=parsed.start) == parsed


CREATED = [
    "create table if not exists a.t (a int not null default 1 + 2 primary key, b varchar(3)[] "
    "unique, c numeric(5, 2) check (c > 1), constraint k foreign key (a) references u (x)) "
    "with (y = 1)",
    "create materialized view if not exists v (a) in cluster c with (assert not null a) as "
    "select 1",
    "create index i in cluster c on t using btree (a desc nulls last, (b + 1)) with (x 'y')",
    "create source s in cluster c from kafka connection k (topic 't', start offset (1, 2)) "
    "key format text value format csv with 3 columns include key as k, header 'h' envelope upsert "
    "expose progress as p with (a = b.c)",
    "create source s from postgres connection p (publication 'x') for tables (a.b as c, d)",
    "create source s from load generator tpch (scale factor 0.1, tick interval = '1s')",
    "create table t (a, b) from source s (reference x.y, text columns (c)) format json",
    "create connection c to kafka (brokers ('a', 'b'), sasl password = secret s.p, ssh tunnel j)",
    "create sink s from v into kafka connection k (topic 't') key (a) not enforced format json",
    "create role r login nosuperuser connection limit -1 valid until 'x' in role a, b admin c",
    "create database d owner = r connection limit 5",
]
PIECES = [text[token.start : token.end] for text in CREATED for token in lex(text)[:-1]]


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A CREATE statement with a few tokens taken out, put in or replaced."""
    text = draw(st.sampled_from(CREATED))
    pieces = [text[token.start : token.end] for token in lex(text)[:-1]]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(pieces)))
        pieces[at : at + draw(st.integers(0, 2))] = draw(
            st.lists(st.sampled_from(PIECES), max_size=1)
        )
    return " ".join(pieces)


@examples(100)
@given(changed())
def test_a_printed_statement_is_read_as_the_same(text: str) -> None:
    try:
        found = parse_statements(text)
    except SqlFault:
        return
    for parsed in found:
        if isinstance(parsed.statement, get_args(CreateStatement)):
            (again,) = parse_statements(create_text(parsed.statement))
            assert again.statement == parsed.statement


@examples(100)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_quoted_literals_mean_the_text(text: str) -> None:
    token, end = lex(quote_literal(text))
    assert (token.kind, token.value, end.kind) == (Kind.STRING, text, Kind.END)


@examples(100)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_quoted_names_mean_the_name(name: str) -> None:
    token, end = lex(quote_ident(name))
    assert end.kind is Kind.END
    assert token.kind in (Kind.WORD, Kind.QUOTED)
    assert name.startswith(token.value)
    assert token.value == name or len(name.encode()) > 63


def test_the_laws_can_fail() -> None:
    """The generated fragments do reach both outcomes."""
    with pytest.raises(SqlFault):
        parse_statements("select (")
    assert parse_statements("table a")
