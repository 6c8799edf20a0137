"""More functions of JSON: laid out in lines, with something put in, made of arrays of texts."""

from __future__ import annotations

from waterclock.model.pg_types import BOOL, JSONB, TEXT, PgType
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect import raw_jsons as raw
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.types import ANYARRAY, JSON, TEXT_ARRAY
from waterclock.sql.functions.json_texts import json_text_of
from waterclock.sql.functions.jsons import path_of
from waterclock.sql.functions.registry import Function, Refused, SqlRule, Use, scalar

_WRONG = "22023"


def _inserted(use: Use) -> str:
    value, path, new, *flag = use.arguments
    if flag and flag[0].value is None:
        raise Refused("jsonb_insert() with a flag that is not a constant")
    steps = path_of(path)
    scalar_one = raised(_WRONG, "cannot set path in scalar")
    changed = "z.v"
    if steps:
        is_after = bool(flag) and bool(flag[0].value)
        changed = js.inserted("z.v", steps, "z.n", is_after=is_after)
    body = (
        "(CASE WHEN z.v IS NULL OR z.n IS NULL THEN NULL"
        f" WHEN {js.is_scalar('z.v')} THEN {scalar_one} ELSE {changed} END)"
    )
    return let({"v": value.sql, "n": new.sql}, "z", body)


def _extracted(*, is_raw: bool, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, *steps = (each.sql for each in use.arguments)
        path = f"ARRAY({', '.join(steps)})"
        if is_raw:
            found = raw.at_path(value, path)
            return raw.text_of_json(found) if as_text else found
        found = js.at_path(value, path)
        return let({"v": found}, "j", js.text_of_json("j.v")) if as_text else found

    return written


def _of_texts(*, is_raw: bool) -> SqlRule:
    """An object of names and values that are texts, in one array or in two."""

    def written(use: Use) -> str:
        both = [each.sql for each in use.arguments]
        if len(both) == 1:
            odd = raised("2202E", "array must have even number of elements")
            names = "FILTER(w.a, (e, i) -> i % 2 = 0)"
            values = {"a": both[0]}
            value, wrong = "GET(w.a, 2 * i + 1)", f"WHEN SIZE(w.a) % 2 = 1 THEN {odd}"
        else:
            odd = raised("2202E", "mismatched array dimensions")
            names, values = "w.a", {"a": both[0], "b": both[1]}
            value, wrong = "GET(w.b, i)", f"WHEN SIZE(w.a) <> SIZE(w.b) THEN {odd}"
        missing = raised("22004", "null value not allowed for object key")
        pair = f"'k', COALESCE(k, {missing}), 'v', {_string_or_null(value)}"
        pairs = f"TRANSFORM({names}, (k, i) -> NAMED_STRUCT({pair}))"
        made = js.object_of(pairs)
        if is_raw:
            text = f"CONCAT({js.string_of('m.k')}, ' : ', m.v)"
            made = f"CONCAT('{{', ARRAY_JOIN(TRANSFORM({pairs}, m -> {text}), ', '), '}}')"
        known = " AND ".join(f"w.{name} IS NOT NULL" for name in values)
        return let(values, "w", f"(CASE {wrong} WHEN {known} THEN {made} END)")

    return written


def _string_or_null(text: str) -> str:
    return f"COALESCE({js.string_of(text)}, 'null')"


def _array_to_json(use: Use) -> str:
    value = use.arguments[0]
    return json_text_of(value.sql, value.type, use.manner)


def _extracting(prefix: str, kind: PgType) -> list[Function]:
    is_raw = kind == JSON
    found = []
    for end, result, doc in (
        ("extract_path", kind, "What is at a path."),
        ("extract_path_text", TEXT, "What is at a path, as text."),
    ):
        rule = _extracted(is_raw=is_raw, as_text=result == TEXT)
        found.append(scalar(f"{prefix}_{end}", (kind, TEXT), result, rule, doc, is_variadic=True))
    return found


FUNCTIONS: tuple[Function, ...] = (
    scalar(
        "jsonb_pretty",
        (JSONB,),
        TEXT,
        "WC_JSON_PRETTY({0})",
        "With a line for each member and element.",
    ),
    scalar(
        *("jsonb_insert", (JSONB, TEXT_ARRAY, JSONB), JSONB, _inserted),
        "With one more value before the element at a path, or as a new member.",
    ),
    scalar(
        *("jsonb_insert", (JSONB, TEXT_ARRAY, JSONB, BOOL), JSONB, _inserted),
        "With one more value at a path; whether behind the element is a constant.",
    ),
    *_extracting("jsonb", JSONB),
    *_extracting("json", JSON),
    *(
        scalar(name, kinds, result, _of_texts(is_raw=result == JSON), doc)
        for name, result in (("jsonb_object", JSONB), ("json_object", JSON))
        for kinds, doc in (
            ((TEXT_ARRAY,), "An object of names and values in turn."),
            ((TEXT_ARRAY, TEXT_ARRAY), "An object of names and values."),
        )
    ),
    scalar("array_to_json", (ANYARRAY,), JSON, _array_to_json, "An array as JSON."),
)
