"""Cutting queries and expressions out of a statement without understanding them.

A piece of text goes on until a word or mark outside all brackets ends it, and never past the end of
the statement. Brackets must match; that is all that is checked.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.sql.ast.common import ExpressionText, Identifier, QueryText, SortKey
from waterclock.sql.ast.queries import AsOf
from waterclock.sql.keywords import NOT_A_COLUMN, RESERVED
from waterclock.sql.keywords import words as words_in
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token

_CLOSING = {"(": ")", "[": "]"}
_NONE: frozenset[str] = frozenset()
_COMMA = frozenset(",")
_QUERY_WORDS = ("select", "values", "table", "with")
_STARTS_EXPRESSION = words_in(
    """array case cast current_date current_role current_time current_timestamp current_user false
    current_catalog lateral localtime localtimestamp not null only session_user true user"""
)


def skip(
    stream: TokenStream,
    words: frozenset[str] = _NONE,
    marks: frozenset[str] = _NONE,
    really: Callable[[TokenStream], bool] | None = None,
) -> None:
    """Move to the end of the piece: one of the words or marks, a closing bracket, or the end.

    `really` is asked, at the word, whether it does end the piece.
    """
    tokens, first = stream.tokens, stream.index
    index = first
    brackets: list[str] = []
    while True:
        kind, value, _, _, _ = token = tokens[index]
        if kind is Kind.OPERATOR:
            if value in _CLOSING:
                brackets.append(_CLOSING[value])
            elif value == ")" or value == "]":
                if not brackets:
                    break
                if brackets.pop() != value:
                    stream.fail(token)
            elif value == ";" or (value in marks and not brackets):
                if brackets:
                    stream.fail(token)
                break
        elif kind is Kind.WORD:
            if not brackets and value in words and not _is_label(tokens, index, first):
                stream.back_to(index)
                if really is None or really(stream):
                    return
        elif kind is Kind.END or kind is Kind.FAULT:
            if brackets or kind is Kind.FAULT:
                stream.fail(token)
            break
        index += 1
    stream.back_to(index)


def _is_label(tokens: list[Token], index: int, first: int) -> bool:
    """Whether the word is a name because AS or a dot stands before it, and no key word."""
    if index == first:
        return False
    before = tokens[index - 1]
    return before.value == "." if before.kind is Kind.OPERATOR else before[:2] == _AS


_AS = (Kind.WORD, "as")
_USING = (Kind.WORD, "using")
_UNFINISHED = words_in(
    """and as between collate except for from group having ilike in intersect into is like limit not
    offset on or order returning similar union where window with"""
)


_NO_BEGINNING = frozenset([",", ".", "..", "]", ":", "::", ":=", "=>", "=", "<", ">"]) | frozenset(
    ["<=", ">=", "<>", "!=", "/", "%", "^"]
)


def _check_beginning(stream: TokenStream) -> None:
    """Raise if nothing can start with the current token, such as a comma or WHERE."""
    token = stream.token
    if token.kind is Kind.OPERATOR:
        if token.value in _NO_BEGINNING:
            stream.fail(token)
    elif token.kind is Kind.WORD and token.value in RESERVED - _STARTS_EXPRESSION:
        stream.fail(token)


def _check_ending(stream: TokenStream) -> None:
    """Raise if the last token of a piece asks for more, such as a comma or AND."""
    token = stream.last
    unfinished = token.kind is Kind.OPERATOR and token.value not in (")", "]", "*")
    if unfinished and stream.tokens[stream.index - 2][:2] == _USING:
        unfinished = False  # of ORDER BY ... USING >
    if token.kind is Kind.WORD and token.value in _UNFINISHED:
        unfinished = not _is_label(stream.tokens, stream.index - 1, 0)
    if unfinished:
        stream.fail(stream.token)


def expression(
    stream: TokenStream,
    words: frozenset[str] = _NONE,
    really: Callable[[TokenStream], bool] | None = None,
) -> ExpressionText:
    """An expression up to a comma, one of the words, a closing bracket or the end."""
    first = stream.index
    _check_beginning(stream)
    skip(stream, words, _COMMA, really)
    if stream.index == first:
        stream.fail()
    _check_ending(stream)
    return stream.expression_from(first)


def expressions(stream: TokenStream, words: frozenset[str] = _NONE) -> tuple[ExpressionText, ...]:
    found = [expression(stream, words)]
    while stream.accept_mark(","):
        found.append(expression(stream, words))
    return tuple(found)


def clause(
    stream: TokenStream,
    words: frozenset[str] = _NONE,
    really: Callable[[TokenStream], bool] | None = None,
) -> QueryText:
    """A part of a query, commas included, such as what stands behind FROM."""
    first = stream.index
    _check_beginning(stream)
    skip(stream, words, really=really)
    if stream.index == first:
        stream.fail()
    _check_ending(stream)
    return stream.query_from(first)


def condition(stream: TokenStream, words: frozenset[str] = _NONE) -> ExpressionText:
    """An expression that no comma ends, such as what stands behind WHERE."""
    text = clause(stream, words)
    return ExpressionText(text.text, text.position)


def in_brackets(stream: TokenStream) -> ExpressionText:
    """`( expression )`, without the brackets."""
    stream.expect_mark("(")
    inner = expression(stream)
    stream.expect_mark(")")
    return inner


def at_query(stream: TokenStream) -> bool:
    """Whether a query follows, perhaps in brackets."""
    ahead = 0
    while (token := stream.peek(ahead)).kind is Kind.OPERATOR and token.value == "(":
        ahead += 1
    return token.kind is Kind.WORD and token.value in _QUERY_WORDS


def expect_query(stream: TokenStream) -> None:
    """Raise the error of the token that keeps this from being a query."""
    if not at_query(stream):
        while stream.accept_mark("("):
            pass
        stream.fail()


_BEHIND_QUERY = words_in(
    "union intersect except order limit offset fetch for as into with returning on"
)


def expect_query_end(stream: TokenStream) -> None:
    """Raise unless what follows can follow a whole TABLE or VALUES."""
    if stream.at_end() or stream.at_mark(")") or stream.at_any(*_BEHIND_QUERY):
        return
    stream.fail(stream.token)


def query(
    stream: TokenStream,
    words: frozenset[str] = _NONE,
    really: Callable[[TokenStream], bool] | None = None,
) -> QueryText:
    """A query up to one of the words, a closing bracket or the end of the statement."""
    expect_query(stream)
    first = stream.index
    if stream.accept("table"):
        stream.accept("only")
        stream.object_name()
        stream.accept_mark("*")
        expect_query_end(stream)
        stream.back_to(first)

    def ends(stream: TokenStream) -> bool:
        if stream.at("into"):
            stream.unsupported("SELECT INTO")
        return at_as_of(stream) or (not stream.at("as") and (really is None or really(stream)))

    skip(stream, words | {"as", "into"}, really=ends)
    _check_ending(stream)
    return stream.query_from(first)


def query_without_time(
    stream: TokenStream,
    what: str,
    words: frozenset[str] = _NONE,
    really: Callable[[TokenStream], bool] | None = None,
) -> QueryText:
    """A query in a place where AS OF makes no sense; `what` names the place."""
    text = query(stream, words, really)
    if stream.at("as"):
        stream.unsupported(f"AS OF in {what}")
    return text


def at_as_of(stream: TokenStream) -> bool:
    """Whether AS OF follows, and not an alias that is called `of`."""
    if not stream.at("as", "of"):
        return False
    token = stream.peek(2)
    match token.kind:
        case Kind.WORD:
            return token.value not in NOT_A_COLUMN or token.value in _STARTS_EXPRESSION
        case Kind.OPERATOR:
            return token.value in ("(", "-", "+")
        case Kind.END:
            return False
        case _:
            return True


def as_of(stream: TokenStream, words: frozenset[str] = _NONE) -> AsOf | None:
    """`AS OF [AT LEAST] time`, if it follows."""
    if not stream.accept("as", "of"):
        return None
    at_least = stream.accept("at", "least")
    return AsOf(condition(stream, words), at_least)


_SORTING = frozenset({"asc", "desc", "nulls", "using"})


def _ends_sort_key(stream: TokenStream) -> bool:
    return not stream.at("nulls") or stream.at("nulls", "first") or stream.at("nulls", "last")


def sort_keys(stream: TokenStream, words: frozenset[str] = _NONE) -> tuple[SortKey, ...]:
    """`expression [ASC | DESC] [NULLS FIRST | NULLS LAST], ...`."""
    keys = [_sort_key(stream, words)]
    while stream.accept_mark(","):
        keys.append(_sort_key(stream, words))
    return tuple(keys)


def _sort_key(stream: TokenStream, words: frozenset[str]) -> SortKey:
    text = expression(stream, _SORTING | words, _ends_sort_key)
    descending = stream.accept_any("asc", "desc") == "desc"
    nulls_first = None
    if stream.at("nulls"):
        if not _ends_sort_key(stream):
            stream.fail(stream.token)
        stream.expect("nulls")
        nulls_first = stream.expect_any("first", "last") == "first"
    return SortKey(text, descending, nulls_first)


def column_list(stream: TokenStream) -> tuple[Identifier, ...] | None:
    """`(a, b, ...)`, if it follows."""
    return stream.identifiers() if stream.at_mark("(") else None
