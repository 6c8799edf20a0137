"""Functions and operators of `jsonb`.

A value is held as its text in PostgreSQL's normal form (`dialect.jsons`), and so is what is
computed from one. Those of `json`, which keeps the text it was given as, are in `json_texts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from waterclock.model.manner import Manner
from waterclock.model.pg_types import BOOL, INT4, JSONB, TEXT, PgType
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.json_ordering import order_key
from waterclock.sql.dialect.json_reading import number
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import text_of
from waterclock.sql.dialect.types import (
    ANY,
    ANYELEMENT,
    TEXT_ARRAY,
    element_type,
    is_array,
    name_of,
)
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    SqlRule,
    Use,
    scalar,
)

_WRONG = "22023"
_SCALAR = raised(_WRONG, "cannot delete from scalar")


def name_token(argument: Argument) -> str:
    """A name as the JSON string that it is in a document."""
    if argument.text is not None:
        return quoted(js.string_literal(argument.text))
    return js.string_of(argument.sql)


def _taken(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, step = use.arguments
        if name_of(step.type) == "int4":
            found = js.element(value.sql, step.sql)
        else:
            found = js.member(value.sql, name_token(step))
        return let({"v": found}, "j", js.text_of_json("j.v")) if as_text else found

    return written


def _deep(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, path = (each.sql for each in use.arguments)
        found = js.at_path(value, path)
        return let({"v": found}, "j", js.text_of_json("j.v")) if as_text else found

    return written


# --- Asking ---------------------------------------------------------------------------------------


def _contains(*, flipped: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, wanted = use.arguments[::-1] if flipped else use.arguments
        if wanted.text is None:
            return f"WC_JSON_CONTAINS({value.sql}, {wanted.sql})"
        found = js.contains("q.v", js.parsed(wanted.text))
        return let({"v": value.sql}, "q", f"(CASE WHEN q.v IS NOT NULL THEN {found} END)")

    return written


def _names(value: str) -> str:
    """The names of an object's members, or the strings of an array, as JSON strings."""

    def made(v: str) -> str:
        of_object = f"FILTER({js.pieces(v)}, (e, i) -> i % 2 = 0)"
        of_array = f"FILTER({js.elements(v)}, e -> LEFT(e, 1) = '\"')"
        return f"(CASE WHEN {js.is_object(v)} THEN {of_object} ELSE {of_array} END)"

    return js.held({"v": value}, "k", made)


def _has(use: Use) -> str:
    value, name = use.arguments
    return f"ARRAY_CONTAINS({_names(value.sql)}, {name_token(name)})"


def _has_of(kind: str) -> SqlRule:
    def written(use: Use) -> str:
        value, names = (each.sql for each in use.arguments)
        wanted = f"TRANSFORM(FILTER(q.n, e -> e IS NOT NULL), e -> {js.string_of('e')})"
        test = f"{kind}({wanted}, e -> ARRAY_CONTAINS(q.h, e))"
        known = "q.h IS NOT NULL AND q.n IS NOT NULL"
        asked = f"(CASE WHEN {known} THEN {test} END)"
        return let({"h": _names(value), "n": names}, "q", asked)

    return written


def _equal(sign: str) -> SqlRule:
    def written(use: Use) -> str:
        left, right = (js.canonical(each.sql) for each in use.arguments)
        return f"({left} {sign} {right})"

    return written


def _ordered(sign: str) -> SqlRule:
    def written(use: Use) -> str:
        left, right = (order_key(each.sql) for each in use.arguments)
        return f"({left} {sign} {right})"

    return written


# --- Changing -------------------------------------------------------------------------------------


def _joined(use: Use) -> str:
    left, right = (each.sql for each in use.arguments)
    return js.held({"a": left, "b": right}, "y", _joined_once)


def _joined_once(left: str, right: str) -> str:
    merged = js.object_of(f"CONCAT({js.members(left)}, {js.members(right)})")
    listed = js.array_of(f"CONCAT({js.elements(left)}, {js.elements(right)})")
    both = f"{js.is_object(left)} AND {js.is_object(right)}"
    known = f"{left} IS NOT NULL AND {right} IS NOT NULL"
    return f"(CASE WHEN {known} THEN CASE WHEN {both} THEN {merged} ELSE {listed} END END)"


def _without(value: str, tokens: str) -> str:
    """Without members, or strings, of some names, given as an array of JSON strings."""
    pairs = "FILTER(TRANSFORM(r.p, (e, i) -> NAMED_STRUCT('e', e, 'i', i, 'k', GET(r.p, i - 1))),"
    kept = f"{pairs} x -> x.i % 2 = 1 AND NOT ARRAY_CONTAINS(r.n, x.k))"
    texts = f"TRANSFORM({kept}, x -> CONCAT(x.k, ': ', x.e))"
    of_object = f"CONCAT('{{', ARRAY_JOIN({texts}, ', '), '}}')"
    of_array = js.array_of("FILTER(r.p, e -> NOT ARRAY_CONTAINS(r.n, e))")
    body = (
        f"(CASE WHEN r.n IS NULL THEN NULL WHEN {js.is_scalar('r.v')} THEN {_SCALAR}"
        f" WHEN {js.is_object('r.v')} THEN {of_object} WHEN r.v IS NOT NULL THEN {of_array} END)"
    )
    return _of_pieces(value, tokens, body)


def _of_pieces(value: str, what: str, body: str) -> str:
    """The body, in which `r.v` is the document, `r.p` its pieces, and `r.n` what is looked for."""

    def made(v: str, n: str) -> str:
        return let({"v": v, "p": js.pieces(v), "n": n}, "r", body)

    return js.held({"v": value, "n": what}, "y", made)


def _less_name(use: Use) -> str:
    value, name = use.arguments
    token = name_token(name)
    return f"(CASE WHEN {token} IS NOT NULL THEN {_without(value.sql, f'ARRAY({token})')} END)"


def _less_names(use: Use) -> str:
    value, names = (each.sql for each in use.arguments)
    tokens = f"TRANSFORM(FILTER({names}, e -> e IS NOT NULL), e -> {js.string_of('e')})"
    return _without(value, tokens)


def _less_place(use: Use) -> str:
    value, place = (each.sql for each in use.arguments)
    index = "CASE WHEN r.n < 0 THEN r.n + SIZE(r.p) ELSE r.n END"
    kept = js.array_of(f"FILTER(r.p, (e, i) -> i <> ({index}))")
    of_object = raised(_WRONG, "cannot delete from object using integer index")
    body = (
        f"(CASE WHEN r.n IS NULL THEN NULL WHEN {js.is_object('r.v')} THEN {of_object}"
        f" WHEN {js.is_scalar('r.v')} THEN {_SCALAR} WHEN r.v IS NOT NULL THEN {kept} END)"
    )
    return _of_pieces(value, place, body)


def path_of(argument: Argument) -> tuple[str, ...]:
    """A path that is a constant."""
    if argument.value is None:
        raise Refused("a path into JSON that is not a constant")
    if any(each is None for each in argument.value):
        raise Refused("a path into JSON with a null in it")
    return tuple(str(each) for each in argument.value)


def _unless_empty(value: str, changed: str) -> str:
    """In what is empty there is nothing to change, whatever the path says."""
    return f"(CASE WHEN {value} IN ('[]', '{{}}') THEN {value} ELSE {changed} END)"


def _set(use: Use) -> str:
    value, path, new, *flag = use.arguments
    if flag and flag[0].value is None:
        raise Refused("jsonb_set() with a flag that is not a constant")
    steps = path_of(path)
    scalar_one = raised(_WRONG, "cannot set path in scalar")
    changed = "z.v"
    create = not flag or bool(flag[0].value)
    if steps:
        changed = js.replaced("z.v", steps, "z.n", create=create)
    if not create:
        changed = _unless_empty("z.v", changed)
    body = f"(CASE WHEN {js.is_scalar('z.v')} THEN {scalar_one} ELSE {changed} END)"
    known = f"{value.sql} IS NOT NULL AND {new.sql} IS NOT NULL"
    made = let({"v": value.sql, "n": new.sql}, "z", body)
    return f"(CASE WHEN {known} THEN {made} END)"


_TREATMENTS = ("raise_exception", "use_json_null", "delete_key", "return_target")


def _set_lax(use: Use) -> str:
    """`jsonb_set`, and what is to be done instead if the new value is null."""
    value, path, new, *rest = use.arguments
    treatment = rest[1].text if len(rest) > 1 else "use_json_null"
    if treatment is None:
        raise Refused("jsonb_set_lax() with a treatment of nulls that is not a constant")
    if treatment not in _TREATMENTS:
        known = '"raise_exception", "use_json_null", "delete_key", or "return_target"'
        raise Invalid(_WRONG, f"null_value_treatment must be {known}")
    if treatment == "use_json_null":
        null = replace(new, sql=f"COALESCE({new.sql}, 'null')", text=None)
        return _set(replace(use, arguments=(value, path, null, *rest[:1])))
    instead = value.sql
    if treatment == "raise_exception":
        instead = raised("22004", "JSON value must not be null")
    elif treatment == "delete_key":
        instead = _less_path(replace(use, arguments=(value, path)))
    whole = _set(replace(use, arguments=(value, path, new, *rest[:1])))
    known_value = f"{value.sql} IS NOT NULL"
    return f"(CASE WHEN {new.sql} IS NULL AND {known_value} THEN {instead} ELSE {whole} END)"


def _less_path(use: Use) -> str:
    value, path = use.arguments
    steps = path_of(path)
    scalar_one = raised(_WRONG, "cannot delete path in scalar")
    changed = _unless_empty("z.v", js.removed("z.v", steps)) if steps else "z.v"
    body = f"(CASE WHEN {js.is_scalar('z.v')} THEN {scalar_one} ELSE {changed} END)"
    return let({"v": value.sql}, "z", body)


# --- Making ---------------------------------------------------------------------------------------

AS_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "oid", "uint8", "mz_timestamp"})


def json_of(value: str, declared: PgType, manner: Manner) -> str:
    """Any value as JSON; null stays null."""
    if is_array(declared):
        inner = f"COALESCE({json_of('e', element_type(declared), manner)}, 'null')"
        return js.array_of(f"TRANSFORM({value}, e -> {inner})")
    name = name_of(declared)
    if name == "json":
        raise Refused("a json value in another one", "Use jsonb.")
    if name == "jsonb":
        return value
    if name in AS_NUMBERS or name == "bool":
        return text_of(value, declared, manner)
    if name in ("float4", "float8"):
        text = text_of(value, declared, manner)
        odd = f"(ISNAN({value}) OR ABS({value}) = CAST('Infinity' AS DOUBLE))"
        shown = f"(CASE WHEN f.o THEN CONCAT('\"', f.t, '\"') ELSE {number('f.t')} END)"
        return let({"t": text, "o": odd}, "f", shown)
    return js.string_of(text_in_json(value, declared, manner))


def text_in_json(value: str, declared: PgType, manner: Manner) -> str:
    """The text of a value as a string, or a name, in JSON has it."""
    text = value if name_of(declared) == "bpchar" else text_of(value, declared, manner)
    name = name_of(declared)
    if name in ("timestamp", "timestamptz"):
        text = f"REPLACE({text}, ' ', 'T')"
        if name == "timestamptz":
            # JSON has the minutes of an offset always.
            text = f"REGEXP_REPLACE({text}, '([+-][0-9]{{2}})$', '\\u00241:00')"
        text = f"REPLACE({text}, 'TBC', ' BC')"
    return text


def _to_json(use: Use) -> str:
    [value] = use.arguments
    return json_of(value.sql, value.type, use.manner)


def json_or_null(argument: Argument, use: Use) -> str:
    """A value as JSON, with JSON's own null for null."""
    return f"COALESCE({json_of(argument.sql, argument.type, use.manner)}, 'null')"


def row_of(fields: Sequence[tuple[str, Argument]], manner: Manner) -> str:
    """A row as an object of its columns."""
    pairs = ", ".join(
        f"NAMED_STRUCT('k', {quoted(name)},"
        f" 'v', COALESCE({json_of(a.sql, a.type, manner)}, 'null'))"
        for name, a in fields
    )
    return js.object_of(f"ARRAY({pairs})") if pairs else "'{}'"


def _built_array(use: Use) -> str:
    items = ", ".join(json_or_null(each, use) for each in use.arguments)
    return js.array_of(f"ARRAY({items})") if items else "'[]'"


def pairs_of(use: Use) -> list[tuple[Argument, Argument]]:
    """Names and values, which come in turn."""
    if len(use.arguments) % 2:
        raise Invalid(_WRONG, "argument list must have even number of elements")
    return list(zip(use.arguments[::2], use.arguments[1::2], strict=True))


def _built_object(use: Use) -> str:
    pairs = ", ".join(
        f"NAMED_STRUCT('k', {name_in_json(key, place, use)}, 'v', {json_or_null(value, use)})"
        for place, (key, value) in enumerate(pairs_of(use))
    )
    return js.object_of(f"ARRAY({pairs})") if pairs else "'{}'"


def name_in_json(argument: Argument, place: int, use: Use) -> str:
    """An argument as the name of a member, as text."""
    if is_array(argument.type) or name_of(argument.type) in ("json", "jsonb"):
        raise Refused("a JSON object with a name that is no scalar")
    missing = raised(_WRONG, f"argument {2 * place + 1}: key must not be null")
    return f"COALESCE({text_in_json(argument.sql, argument.type, use.manner)}, {missing})"


def _array_length(use: Use) -> str:
    [value] = (each.sql for each in use.arguments)
    of_object = raised(_WRONG, "cannot get array length of a non-array")
    of_scalar = raised(_WRONG, "cannot get array length of a scalar")

    def made(v: str) -> str:
        return (
            f"(CASE WHEN {js.is_array(v)} THEN SIZE({js.pieces(v)})"
            f" WHEN {js.is_object(v)} THEN {of_object} WHEN {v} IS NOT NULL THEN {of_scalar} END)"
        )

    return js.held({"v": value}, "y", made)


def _typeof(use: Use) -> str:
    return js.held({"v": use.arguments[0].sql}, "y", js.KINDS.format)


def _stripped(use: Use) -> str:
    [value] = (each.sql for each in use.arguments)
    return js.without_nulls(value)


_PAIR = (JSONB, JSONB)
OPERATORS: tuple[Function, ...] = (
    scalar("->", (JSONB, TEXT), JSONB, _taken(as_text=False), "A member."),
    scalar("->", (JSONB, INT4), JSONB, _taken(as_text=False), "An element, from 0."),
    scalar("->>", (JSONB, TEXT), TEXT, _taken(as_text=True), "A member, as text."),
    scalar("->>", (JSONB, INT4), TEXT, _taken(as_text=True), "An element, as text."),
    scalar("#>", (JSONB, TEXT_ARRAY), JSONB, _deep(as_text=False), "What is at a path."),
    scalar("#>>", (JSONB, TEXT_ARRAY), TEXT, _deep(as_text=True), "The same, as text."),
    scalar("@>", _PAIR, BOOL, _contains(flipped=False), "Whether it contains a constant."),
    scalar("<@", _PAIR, BOOL, _contains(flipped=True), "Whether a constant contains it."),
    scalar("?", (JSONB, TEXT), BOOL, _has, "Whether it has a member, or string, of that name."),
    scalar("?|", (JSONB, TEXT_ARRAY), BOOL, _has_of("EXISTS"), "Whether it has one of them."),
    scalar("?&", (JSONB, TEXT_ARRAY), BOOL, _has_of("FORALL"), "Whether it has all of them."),
    scalar("||", _PAIR, JSONB, _joined, "Both objects, or both arrays, as one."),
    scalar("-", (JSONB, TEXT), JSONB, _less_name, "Without a member, or a string."),
    scalar("-", (JSONB, TEXT_ARRAY), JSONB, _less_names, "Without members, or strings."),
    scalar("-", (JSONB, INT4), JSONB, _less_place, "Without the element at a place."),
    scalar("#-", (JSONB, TEXT_ARRAY), JSONB, _less_path, "Without what is at a constant path."),
    *(
        scalar(sign, _PAIR, BOOL, _equal(sign), doc)
        for sign, doc in {"=": "Whether both are equal.", "<>": "Whether they differ."}.items()
    ),
    *(
        scalar(sign, _PAIR, BOOL, _ordered(sign), f"Whether the first {comes} the second.")
        for sign, comes in {
            **{"<": "comes before", "<=": "does not come after"},
            **{">": "comes after", ">=": "does not come before"},
        }.items()
    ),
)
FUNCTIONS: tuple[Function, ...] = (
    scalar("jsonb_typeof", (JSONB,), TEXT, _typeof, "What kind of JSON it is."),
    scalar("jsonb_array_length", (JSONB,), INT4, _array_length, "How many elements."),
    scalar("jsonb_strip_nulls", (JSONB,), JSONB, _stripped, "Without members that are null."),
    scalar("jsonb_set", (JSONB, TEXT_ARRAY, JSONB), JSONB, _set, "With a value at a path."),
    scalar(
        *("jsonb_set", (JSONB, TEXT_ARRAY, JSONB, BOOL), JSONB, _set),
        "With a value at a path; whether to add it is a constant.",
    ),
    *(
        scalar(
            *("jsonb_set_lax", (JSONB, TEXT_ARRAY, JSONB, *more), JSONB, _set_lax),
            "With a value at a path; what a null does there is a constant.",
        )
        for more in ((), (BOOL,), (BOOL, TEXT))
    ),
    scalar("to_jsonb", (ANYELEMENT,), JSONB, _to_json, "A value as JSON."),
    scalar("jsonb_build_array", (), JSONB, _built_array, "An empty array.", never_null=True),
    scalar("jsonb_build_object", (), JSONB, _built_object, "An empty object.", never_null=True),
    scalar(
        *("jsonb_build_array", (ANY,), JSONB, _built_array, "An array of the arguments."),
        is_variadic=True,
        never_null=True,
    ),
    scalar(
        *("jsonb_build_object", (ANY,), JSONB, _built_object, "An object of names and values."),
        is_variadic=True,
        never_null=True,
    ),
)
