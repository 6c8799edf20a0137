"""The functions that a catalog query may call: their arguments, their results, and DuckDB's text.

One entry is one signature. `{0}`, `{1}` are the arguments; `<name>` is a value that the session
fills in; names that begin with `wc_` are calls back into Python (see `calls`). What is not here
does not exist: the error says so as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from waterclock.catalog.system import types as t
from waterclock.catalog.system.binding.typed import Typed

ANY, ANYARRAY, ANYELEMENT, SAME_ARRAY = 2276, 2277, 2283, -1
"""Any type; any array; the element of the array; an array of what the first argument is."""

REFUSED = "{refused}"
"""The template of a function that PostgreSQL has, and that DuckDB would compute otherwise."""

Result = int | Callable[[Sequence[Typed]], int]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: tuple[int, ...]
    result: int
    """A type, or ANYELEMENT, ANYARRAY or SAME_ARRAY in terms of the first argument."""
    template: str
    variadic: bool = False
    """The last argument may be repeated, or left out."""
    many: bool = False
    """It gives a list, which stands for a set of rows."""
    aggregate: bool = False
    window: bool = False
    fields: tuple[tuple[str, int], ...] = ()
    """Of a record."""


def _f(name: str, arguments: tuple[int, ...], result: int, template: str) -> Function:
    return Function(name, arguments, result, template)


def _session() -> Iterator[Function]:
    for name, result, value in (
        ("version", t.TEXT, "version"),
        ("mz_version", t.TEXT, "mz_version"),
        ("current_database", t.NAME, "database"),
        ("current_catalog", t.NAME, "database"),
        ("current_user", t.NAME, "current_user"),
        ("current_role", t.NAME, "current_user"),
        ("user", t.NAME, "current_user"),
        ("session_user", t.NAME, "session_user"),
        ("current_schema", t.NAME, "schema"),
        ("pg_backend_pid", t.INT4, "pid"),
        ("now", t.TIMESTAMPTZ, "now"),
        ("transaction_timestamp", t.TIMESTAMPTZ, "now"),
        ("statement_timestamp", t.TIMESTAMPTZ, "now"),
        ("clock_timestamp", t.TIMESTAMPTZ, "now"),
        ("pg_postmaster_start_time", t.TIMESTAMPTZ, "started"),
        ("pg_conf_load_time", t.TIMESTAMPTZ, "started"),
    ):
        yield _f(name, (), result, f"<{value}>")
    yield _f("current_schemas", (t.BOOL,), t.NAME_ARRAY, "wc_current_schemas({0})")
    yield _f("current_setting", (t.TEXT,), t.TEXT, "wc_current_setting({0}, FALSE)")
    yield _f("current_setting", (t.TEXT, t.BOOL), t.TEXT, "wc_current_setting({0}, {1})")
    yield _f("set_config", (t.TEXT, t.TEXT, t.BOOL), t.TEXT, "wc_set_config({0}, {1}, {2})")
    for name, result, constant in (
        ("pg_is_in_recovery", t.BOOL, "FALSE"),
        ("pg_is_wal_replay_paused", t.BOOL, "FALSE"),
        ("pg_my_temp_schema", t.OID, "CAST(0 AS UINTEGER)"),
        ("txid_current", t.INT8, "CAST(1 AS BIGINT)"),
        ("txid_current_if_assigned", t.INT8, "CAST(NULL AS BIGINT)"),
        ("inet_server_addr", 869, "CAST(NULL AS VARCHAR)"),
        ("inet_server_port", t.INT4, "CAST(NULL AS INTEGER)"),
        ("inet_client_addr", 869, "CAST(<client_address> AS VARCHAR)"),
        ("inet_client_port", t.INT4, "CAST(NULL AS INTEGER)"),
        ("getdatabaseencoding", t.NAME, "'UTF8'"),
        ("pg_client_encoding", t.NAME, "'UTF8'"),
    ):
        yield _f(name, (), result, constant)
    yield _f("pg_encoding_to_char", (t.INT4,), t.NAME, "wc_encoding_name({0})")
    yield _f("pg_char_to_encoding", (t.NAME,), t.INT4, "wc_encoding_number({0})")
    yield _f("pg_is_other_temp_schema", (t.OID,), t.BOOL, "FALSE AND {0} IS NULL")
    yield _f("pg_sleep", (t.FLOAT8,), t.VOID, "wc_sleep({0})")
    yield _f("pg_blocking_pids", (t.INT4,), 1007, "wc_blocking({0})")
    yield _f("pg_cancel_backend", (t.INT4,), t.BOOL, "wc_stop({0}, FALSE)")
    yield _f("pg_terminate_backend", (t.INT4,), t.BOOL, "wc_stop({0}, TRUE)")
    patient = "wc_stop(CASE WHEN {1} IS NOT NULL THEN {0} END, TRUE)"
    yield _f("pg_terminate_backend", (t.INT4, t.INT8), t.BOOL, patient)
    yield _f("age", (t.XID,), t.INT4, "CAST({0} AS INTEGER)")
    yield _f("to_char", (t.TIMESTAMPTZ, t.TEXT), t.TEXT, "wc_moment_text({0}, {1}, <zone>)")
    yield _f("host", (869,), t.TEXT, "split_part({0}, '/', 1)")
    yield _f("encode", (t.BYTEA, t.TEXT), t.TEXT, "wc_encoded({0}, {1})")


def _locks() -> Iterator[Function]:
    """Advisory locks: `wc_lock(first, second, kind, how)`."""
    keys = (((t.INT8,), "{0}, 0, 1"), ((t.INT4, t.INT4), "{0}, {1}, 2"))
    for arguments, key in keys:
        for how in ("", "_shared", "_xact", "_xact_shared"):
            scope, mode = ("_xact" if "xact" in how else ""), ("_shared" if "shared" in how else "")
            name = f"advisory{scope}_lock{mode}"
            taken = f"CASE WHEN wc_lock({key}, '{how}') THEN '' END"
            yield _f(f"pg_{name}", arguments, t.VOID, taken)
            yield _f(f"pg_try_{name}", arguments, t.BOOL, f"wc_lock({key}, '{how} try')")
        for mode in ("", "_shared"):
            yield _f(f"pg_advisory_unlock{mode}", arguments, t.BOOL, f"wc_unlock({key}, '{mode}')")
    yield _f("pg_advisory_unlock_all", (), t.VOID, "wc_unlock_all(0)")


def _definitions() -> Iterator[Function]:
    yield _f("format_type", (t.OID, t.INT4), t.TEXT, "wc_format_type({0}, {1})")
    yield _f("pg_get_userbyid", (t.OID,), t.NAME, "wc_role_name({0})")
    for more in ((), (t.BOOL,)):
        yield _f("pg_get_expr", (t.PG_NODE_TREE, t.OID, *more), t.TEXT, "{0}")
        yield _f("pg_get_constraintdef", (t.OID, *more), t.TEXT, "wc_constraint({0})")
        yield _f("pg_get_ruledef", (t.OID, *more), t.TEXT, "wc_nothing({0})")
        yield _f("pg_get_triggerdef", (t.OID, *more), t.TEXT, "wc_nothing({0})")
        yield _f("pg_get_viewdef", (t.OID, *more), t.TEXT, "wc_view({0})")
        yield _f(
            "pg_get_viewdef", (t.TEXT, *more), t.TEXT, f"wc_view(wc_reg_in({t.REGCLASS}, {{0}}))"
        )
    yield _f("pg_get_viewdef", (t.OID, t.INT4), t.TEXT, "wc_view({0})")
    yield _f("pg_get_indexdef", (t.OID,), t.TEXT, "wc_index({0}, 0, FALSE)")
    yield _f("pg_get_indexdef", (t.OID, t.INT4, t.BOOL), t.TEXT, "wc_index({0}, {1}, {2})")
    # All indexes are ascending.
    true = "'asc', 'nulls_last', 'orderable', 'returnable', 'search_array', 'search_nulls'"
    false = "'desc', 'nulls_first', 'distance_orderable'"
    has = f"WHEN lower({{2}}) IN ({true}) THEN TRUE WHEN lower({{2}}) IN ({false}) THEN FALSE"
    column = "{1} > 0 AND wc_index({0}, {1}, FALSE) <> ''"
    yield _f(
        "pg_index_column_has_property",
        (t.REGCLASS, t.INT4, t.TEXT),
        t.BOOL,
        f"CASE WHEN {column} THEN CASE {has} END END",
    )
    for name in (
        *("pg_get_functiondef", "pg_get_function_sqlbody", "pg_get_partkeydef"),
        *("pg_get_statisticsobjdef", "pg_get_statisticsobjdef_columns"),
        *("pg_get_statisticsobjdef_expressions", "pg_get_partition_constraintdef"),
    ):
        yield _f(name, (t.OID,), t.TEXT, "wc_nothing({0})")
    yield _f("pg_get_function_arg_default", (t.OID, t.INT4), t.TEXT, "wc_nothing({0})")
    yield _f("pg_get_function_arguments", (t.OID,), t.TEXT, "wc_arguments({0})")
    yield _f("pg_get_function_identity_arguments", (t.OID,), t.TEXT, "wc_arguments({0})")
    yield _f("pg_get_function_result", (t.OID,), t.TEXT, "wc_result({0})")
    yield _f("oidvectortypes", (t.OIDVECTOR,), t.TEXT, "wc_type_names({0})")
    yield _f("pg_get_serial_sequence", (t.TEXT, t.TEXT), t.TEXT, "CAST(NULL AS VARCHAR)")
    yield _f("obj_description", (t.OID, t.NAME), t.TEXT, "wc_comment({0}, {1}, 0)")
    yield _f("obj_description", (t.OID,), t.TEXT, "wc_comment({0}, '', 0)")
    yield _f("col_description", (t.OID, t.INT4), t.TEXT, "wc_comment({0}, 'pg_class', {1})")
    yield _f("shobj_description", (t.OID, t.NAME), t.TEXT, "wc_comment({0}, {1}, 0)")
    for name, kind in _VISIBLE.items():
        yield _f(f"pg_{name}_is_visible", (t.OID,), t.BOOL, f"wc_visible({kind}, {{0}})")
    for name, kind in _REGISTRIES.items():
        yield _f(f"to_{name}", (t.TEXT,), kind, f"wc_to_reg({kind}, {{0}})")
    yield _f("pg_relation_is_publishable", (t.REGCLASS,), t.BOOL, "wc_is_table({0})")
    yield _f("pg_partition_root", (t.REGCLASS,), t.REGCLASS, "CAST(NULL AS UINTEGER)")
    yield _f("pg_relation_filenode", (t.REGCLASS,), t.OID, "CAST(NULL AS UINTEGER)")
    yield _f("row_security_active", (t.OID,), t.BOOL, "FALSE AND {0} IS NULL")
    yield _f("pg_tablespace_location", (t.OID,), t.TEXT, "wc_empty({0})")
    yield _f("pg_size_pretty", (t.INT8,), t.TEXT, "wc_size({0})")
    yield _f("pg_size_pretty", (t.NUMERIC,), t.TEXT, "wc_size(CAST({0} AS BIGINT))")


_VISIBLE = {
    **{"table": t.REGCLASS, "type": t.REGTYPE, "function": t.REGPROC, "operator": t.REGOPER},
    **{"collation": t.REGCOLLATION, "opclass": 0, "opfamily": 0, "conversion": 0},
    **{"statistics_obj": 0, "ts_config": 0, "ts_dict": 0, "ts_parser": 0, "ts_template": 0},
}
_REGISTRIES = {
    **{"regclass": t.REGCLASS, "regtype": t.REGTYPE, "regproc": t.REGPROC},
    **{"regprocedure": t.REGPROCEDURE, "regoper": t.REGOPER, "regoperator": t.REGOPERATOR},
    **{"regnamespace": t.REGNAMESPACE, "regrole": t.REGROLE, "regcollation": t.REGCOLLATION},
}


def _sizes() -> Iterator[Function]:
    """What is stored of a relation is known. Nobody counts what is read of it.

    A size by name comes first: it is what a constant means that could be either.
    """
    stored, nothing = "wc_stored_bytes({0})", "wc_unknown({0})"
    for name in ("pg_table_size", "pg_relation_size", "pg_total_relation_size"):
        yield _f(name, (t.REGCLASS,), t.INT8, stored)
    yield _f("pg_relation_size", (t.REGCLASS, t.TEXT), t.INT8, stored)
    for name in (
        *("pg_indexes_size", "pg_stat_get_numscans", "pg_stat_get_live_tuples"),
        "pg_stat_get_dead_tuples",
    ):
        yield _f(name, (t.REGCLASS,), t.INT8, nothing)
    yield _f("pg_database_size", (t.NAME,), t.INT8, "wc_database_bytes(wc_database_named({0}))")
    yield _f("pg_database_size", (t.OID,), t.INT8, "wc_database_bytes({0})")
    yield _f("pg_tablespace_size", (t.NAME,), t.INT8, "wc_unknown(length({0}))")
    yield _f("pg_tablespace_size", (t.OID,), t.INT8, nothing)


def _privileges() -> Iterator[Function]:
    """`wc_privilege(kind, role, object, privilege)`; a role of '' is the current one."""
    for kind in (
        *("table", "any_column", "schema", "database", "sequence", "function", "language"),
        *("type", "tablespace", "foreign_data_wrapper", "server"),
    ):
        name = f"has_{kind}_privilege"
        for object_, shown in ((t.TEXT, "{0}"), (t.OID, "CAST({0} AS VARCHAR)")):
            yield _f(name, (object_, t.TEXT), t.BOOL, f"wc_privilege('{kind}', '', {shown}, {{1}})")
            later = shown.replace("0", "1")
            for role, who in ((t.NAME, "{0}"), (t.OID, "wc_role_name({0})")):
                yield _f(
                    name,
                    (role, object_, t.TEXT),
                    t.BOOL,
                    f"wc_privilege('{kind}', {who}, {later}, {{2}})",
                )
    for object_, shown in ((t.TEXT, "{0}"), (t.OID, "CAST({0} AS VARCHAR)")):
        for column in (t.TEXT, t.INT2):
            yield _f(
                "has_column_privilege",
                (object_, column, t.TEXT),
                t.BOOL,
                f"wc_privilege('table', '', {shown}, {{2}})",
            )
    for role, who in ((t.NAME, "{0}"), (t.OID, "wc_role_name({0})")):
        yield _f("pg_has_role", (role, t.TEXT), t.BOOL, f"wc_has_role('', {who}, {{1}})")
        later = who.replace("0", "1")
        yield _f(
            "pg_has_role", (t.NAME, role, t.TEXT), t.BOOL, f"wc_has_role({{0}}, {later}, {{2}})"
        )


def _texts() -> Iterator[Function]:
    one, two, three = (t.TEXT,), (t.TEXT, t.TEXT), (t.TEXT, t.TEXT, t.TEXT)
    for name in ("lower", "upper"):
        plain = f"CASE WHEN strlen({{0}}) = length({{0}}) THEN {name}({{0}})"
        yield _f(name, one, t.TEXT, f"{plain} ELSE wc_{name}_case({{0}}) END")
    for name in ("reverse", "md5"):
        yield _f(name, one, t.TEXT, f"{name}({{0}})")
    for name in ("length", "char_length", "character_length"):
        yield _f(name, one, t.INT4, "CAST(length({0}) AS INTEGER)")
    yield _f("octet_length", one, t.INT4, "CAST(strlen({0}) AS INTEGER)")
    yield _f("ascii", one, t.INT4, "ascii({0})")
    yield _f("chr", (t.INT4,), t.TEXT, "wc_character({0})")
    yield _f("replace", three, t.TEXT, "replace({0}, {1}, {2})")
    yield _f("translate", three, t.TEXT, "translate({0}, {1}, {2})")
    yield _f("split_part", (t.TEXT, t.TEXT, t.INT4), t.TEXT, "wc_split_part({0}, {1}, {2})")
    yield _f("left", (t.TEXT, t.INT4), t.TEXT, "left({0}, {1})")
    # The least number has no positive one, which PostgreSQL does not notice.
    right = "CASE WHEN {1} = -2147483648 THEN {0} ELSE right({0}, {1}) END"
    yield _f("right", (t.TEXT, t.INT4), t.TEXT, right)
    yield _f("repeat", (t.TEXT, t.INT4), t.TEXT, "wc_repeated({0}, {1})")
    for name, left in (("lpad", "TRUE"), ("rpad", "FALSE")):
        yield _f(name, (t.TEXT, t.INT4), t.TEXT, f"wc_padded({{0}}, {{1}}, ' ', {left})")
        yield _f(name, (t.TEXT, t.INT4, t.TEXT), t.TEXT, f"wc_padded({{0}}, {{1}}, {{2}}, {left})")
    for name, ours in (("btrim", "trim"), ("ltrim", "ltrim"), ("rtrim", "rtrim")):
        yield _f(name, one, t.TEXT, f"{ours}({{0}}, ' ')")
        yield _f(name, two, t.TEXT, f"{ours}({{0}}, {{1}})")
    for name in ("substr", "substring"):
        yield _f(name, (t.TEXT, t.INT4), t.TEXT, "wc_substring({0}, {1}, NULL)")
        yield _f(name, (t.TEXT, t.INT4, t.INT4), t.TEXT, "wc_substring({0}, {1}, {2})")
    yield _f("substring", two, t.TEXT, "wc_regexp_substring({0}, {1})")
    yield _f("strpos", two, t.INT4, "CAST(instr({0}, {1}) AS INTEGER)")
    yield _f("position", two, t.INT4, "CAST(instr({1}, {0}) AS INTEGER)")
    yield _f("starts_with", two, t.BOOL, "starts_with({0}, {1})")
    yield _f("initcap", one, t.TEXT, "wc_initcap({0})")
    yield _f("quote_ident", one, t.TEXT, "wc_quote_ident({0})")
    yield _f("quote_literal", (ANY,), t.TEXT, "wc_quote_literal(CAST({0} AS VARCHAR))")
    quoted_null = "coalesce(wc_quote_literal(CAST({0} AS VARCHAR)), 'NULL')"
    yield _f("quote_nullable", (ANY,), t.TEXT, quoted_null)
    yield _f("parse_ident", one, t.TEXT_ARRAY, "wc_parse_ident({0}, TRUE)")
    yield _f("parse_ident", (t.TEXT, t.BOOL), t.TEXT_ARRAY, "wc_parse_ident({0}, {1})")
    yield _f("regexp_replace", three, t.TEXT, "wc_regexp_replace({0}, {1}, {2}, '')")
    yield _f("regexp_replace", (*three, t.TEXT), t.TEXT, "wc_regexp_replace({0}, {1}, {2}, {3})")
    yield _f("regexp_match", two, t.TEXT_ARRAY, "wc_regexp_match({0}, {1})")
    yield _f("regexp_split_to_array", two, t.TEXT_ARRAY, "wc_regexp_split({0}, {1})")
    yield _f("string_to_array", two, t.TEXT_ARRAY, "wc_string_to_array({0}, {1})")
    yield _f(
        "array_to_string", (ANYARRAY, t.TEXT), t.TEXT, "wc_join(CAST({0} AS VARCHAR[]), {1}, NULL)"
    )
    yield _f(
        "array_to_string",
        (ANYARRAY, t.TEXT, t.TEXT),
        t.TEXT,
        "wc_join(CAST({0} AS VARCHAR[]), {1}, {2})",
    )
    yield Function("concat", (ANY,), t.TEXT, "concat({*})", variadic=True)
    yield Function("concat_ws", (t.TEXT, ANY), t.TEXT, "concat_ws({*})", variadic=True)
    yield Function("format", (t.TEXT, ANY), t.TEXT, "wc_format({*})", variadic=True)


def _numbers() -> Iterator[Function]:
    for oid in (t.INT4, t.INT8, t.FLOAT8):
        yield _f("abs", (oid,), oid, "abs({0})")
    for oid in (t.INT4, t.INT8):
        yield _f("mod", (oid, oid), oid, "({0} % wc_divisor({1}))")
    for name in ("ceil", "ceiling", "floor", "round", "trunc", "sign"):
        ours = {"ceiling": "ceil", "round": "rint"}.get(name, name)
        value = "round_even({0}, 0)" if ours == "rint" else f"{ours}({{0}})"
        yield _f(name, (t.FLOAT8,), t.FLOAT8, f"CAST({value} AS DOUBLE)")
    for name in ("sqrt", "power", "round", "abs", "mod", "ceil", "floor", "trunc", "sign"):
        for count in (1, 2):
            yield _f(name, (t.NUMERIC,) * count, t.NUMERIC, REFUSED)
    yield _f("sqrt", (t.FLOAT8,), t.FLOAT8, REFUSED)
    for name in ("pow", "power"):
        yield _f(name, (t.FLOAT8, t.FLOAT8), t.FLOAT8, "wc_power({0}, {1})")
    yield _f("random", (), t.FLOAT8, "random()")


_JOINED = "CASE WHEN {0} IS NOT NULL OR {1} IS NOT NULL THEN list_concat({0}, {1}) END"
_MOST_ROWS = 1_000_000
TOO_MANY_ROWS = "wc: a series is too long"
STEP_OF_ZERO = "wc: a series has a step of zero"
"""What DuckDB says of one, for `answerer.translated`."""


def _arrays() -> Iterator[Function]:
    for name, part in (("length", "{length}"), ("upper", "{upper}"), ("lower", "{lower}")):
        only = f"CASE WHEN {{1}} = 1 THEN {part} END"
        yield _f(f"array_{name}", (ANYARRAY, t.INT4), t.INT4, only)
    yield _f("array_ndims", (ANYARRAY,), t.INT4, "CASE WHEN len({0}) > 0 THEN 1 END")
    yield _f("cardinality", (ANYARRAY,), t.INT4, "CAST(len({0}) AS INTEGER)")
    without = "list_filter({0}, lambda kept: kept IS DISTINCT FROM {1})"
    yield _f("array_remove", (ANYARRAY, ANYELEMENT), ANYARRAY, without)
    yield _f(
        "array_append", (ANYARRAY, ANYELEMENT), ANYARRAY, "list_append(coalesce({0}, []), {1})"
    )
    yield _f("array_cat", (ANYARRAY, ANYARRAY), ANYARRAY, _JOINED)
    place = "CAST(nullif(list_position({0}, {1}), 0) AS INTEGER)"
    yield _f("array_position", (ANYARRAY, ANYELEMENT), t.INT4, place)
    yield Function("unnest", (ANYARRAY,), ANYELEMENT, "{0}", many=True)
    places = "CASE WHEN {1} = 1 THEN {subscripts} ELSE CAST([] AS INTEGER[]) END"
    yield Function("generate_subscripts", (ANYARRAY, t.INT4), t.INT4, places, many=True)
    for oid in (t.INT4, t.INT8):
        held = "INTEGER[]" if oid == t.INT4 else "BIGINT[]"
        for more, step in (((), ""), ((oid,), ", {2}")):
            by = f"abs({step[2:]})" if step else "1"
            many = f"(CAST({{1}} AS DOUBLE) - {{0}}) / {by} > {_MOST_ROWS}"
            # The bound is inside: a constant series is computed while DuckDB plans.
            end = f"WHEN {many} THEN error('{TOO_MANY_ROWS}') ELSE {{1}} END"
            if step:
                end = f"WHEN {by} = 0 THEN error('{STEP_OF_ZERO}') {end}"
            series = f"CAST(generate_series({{0}}, CASE {end}{step}) AS {held})"
            yield Function("generate_series", (oid, oid, *more), oid, series, many=True)
    split = "wc_regexp_split({0}, {1})"
    yield Function("regexp_split_to_table", (t.TEXT, t.TEXT), t.TEXT, split, many=True)
    pieces = "wc_string_to_array({0}, {1})"
    yield Function("string_to_table", (t.TEXT, t.TEXT), t.TEXT, pieces, many=True)
    none = "CAST([] AS UINTEGER[])"
    yield Function("pg_partition_ancestors", (t.REGCLASS,), t.REGCLASS, none, many=True)
    for vector, element in ((t.INT2VECTOR, t.INT2), (t.OIDVECTOR, t.OID), (t.INT2_ARRAY, t.INT2)):
        yield Function(
            "_pg_expandarray",
            (vector,),
            t.RECORD,
            "list_transform({0}, lambda x, i: {'x': x, 'n': CAST(i AS INTEGER)})",
            many=True,
            fields=(("x", element), ("n", t.INT4)),
        )
    yield Function(
        "aclexplode",
        (1034,),
        t.RECORD,
        "wc_aclexplode({0})",
        many=True,
        fields=(
            *(("grantor", t.OID), ("grantee", t.OID)),
            *(("privilege_type", t.TEXT), ("is_grantable", t.BOOL)),
        ),
    )
    yield Function(
        "pg_options_to_table",
        (t.TEXT_ARRAY,),
        t.RECORD,
        "list_transform({0}, lambda o: {'option_name': split_part(o, '=', 1), "
        "'option_value': substr(o, instr(o, '=') + 1)})",
        many=True,
        fields=(("option_name", t.TEXT), ("option_value", t.TEXT)),
    )


def _aggregates() -> Iterator[Function]:
    def aggregate(name: str, arguments: tuple[int, ...], result: int, template: str) -> Function:
        return Function(name, arguments, result, template, aggregate=True)

    yield aggregate("count", (), t.INT8, "count({*})")
    yield aggregate("count", (ANY,), t.INT8, "count({*})")
    for name in ("min", "max"):
        for text in (t.TEXT, t.NAME, t.VARCHAR, t.CHAR):
            yield aggregate(name, (text,), t.TEXT, f"{name}({{*}})")
        yield aggregate(name, (ANY,), ANYARRAY, f"{name}({{*}})")
    for oid, result, held in (
        (t.INT2, t.INT8, "BIGINT"),
        (t.INT4, t.INT8, "BIGINT"),
        (t.INT8, t.NUMERIC, "DECIMAL(38, 0)"),
        (t.FLOAT4, t.FLOAT4, "FLOAT"),
        (t.FLOAT8, t.FLOAT8, "DOUBLE"),
        (t.NUMERIC, t.NUMERIC, "DECIMAL(38, 6)"),
    ):
        yield aggregate("sum", (oid,), result, f"CAST(sum({{*}}) AS {held})")
    yield aggregate("avg", (t.FLOAT8,), t.FLOAT8, "avg({*})")
    for name in ("bool_and", "bool_or"):
        yield aggregate(name, (t.BOOL,), t.BOOL, f"{name}({{*}})")
    yield aggregate("every", (t.BOOL,), t.BOOL, "bool_and({*})")
    yield aggregate("array_agg", (ANY,), SAME_ARRAY, "array_agg({*})")
    yield aggregate("string_agg", (t.TEXT, t.TEXT), t.TEXT, "string_agg({*})")


def _windows() -> Iterator[Function]:
    def window(name: str, arguments: tuple[int, ...], result: int, template: str) -> Function:
        return Function(name, arguments, result, template, window=True)

    for name in ("row_number", "rank", "dense_rank"):
        yield window(name, (), t.INT8, f"{name}()")
    for name in ("lag", "lead", "first_value", "last_value"):
        yield window(name, (ANY,), ANYARRAY, f"{name}({{0}})")


def value_functions() -> Iterator[Function]:
    """The functions that depend on nothing but their arguments."""
    for family in (_texts, _numbers, _arrays):
        yield from family()


def _all() -> Iterator[Function]:
    for family in (_session, _locks, _definitions, _sizes, _privileges):
        yield from family()
    yield from value_functions()
    for family in (_aggregates, _windows):
        yield from family()


class Functions:
    """All signatures, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Function]] = {}
        for function in _all():
            self._by_name.setdefault(function.name, []).append(function)

    def named(self, name: str) -> Sequence[Function]:
        return self._by_name.get(name, ())


SPECIAL_FORMS = frozenset(
    {"coalesce", "nullif", "greatest", "least", "json_build_object", "jsonb_build_object"}
    | {"json_build_array", "jsonb_build_array", "row", "to_json", "to_jsonb", "json_agg"}
    | {"jsonb_agg"}
)
"""Functions that take anything, which the binder writes itself."""


def function_names() -> set[str]:
    """Every function that can be called."""
    return {function.name for function in _all()} | SPECIAL_FORMS
