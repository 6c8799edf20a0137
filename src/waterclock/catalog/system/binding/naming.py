"""What an unnamed output column is called, and which type a cast names."""

from __future__ import annotations

from sqlglot import exp

from waterclock.catalog.system.binding.parsing import MARK
from waterclock.catalog.system.binding.scope import folded

UNNAMED = "?column?"

_VALUES: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentSchema: "current_schema",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
    exp.Localtime: "localtime",
    exp.Exists: "exists",
    exp.Array: "array",
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.Extract: "extract",
    exp.Overlay: "overlay",
    exp.AtTimeZone: "timezone",
    exp.Tuple: "row",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
_TYPE_NAMES = {
    **{"INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "BOOLEAN": "bool"},
    **{"FLOAT": "float4", "DOUBLE": "float8", "DECIMAL": "numeric", "CHAR": "bpchar"},
    **{"TIMESTAMPTZ": "timestamptz", "TIMESTAMP": "timestamp", "VARBINARY": "bytea"},
    **{"NCHAR": "bpchar", "TIMETZ": "timetz", "TIMESTAMPLTZ": "timestamptz"},
}


def output_name(node: exp.Expr) -> str:
    """The name of an output column, as PostgreSQL derives it."""
    if isinstance(node, exp.Alias):
        return folded(node.args["alias"])
    return _derived(node)[0] or UNNAMED


def _derived(node: exp.Expr) -> tuple[str | None, int]:
    """A name, and how much it counts: a type's name and `case` give way to a better one."""
    match node:
        case exp.Column():
            return folded(node.this), 2
        case exp.Paren() | exp.Collate() | exp.Bracket() | exp.Filter() | exp.Window():
            return _derived(node.this)
        case exp.Anonymous():
            return str(node.this).removeprefix(MARK), 2
        case exp.Dot():
            last = node.expression
            return (folded(last), 2) if isinstance(last, exp.Identifier) else _derived(last)
        case exp.Cast():
            name, weight = _derived(node.this)
            return (name, weight) if weight > 1 else (type_name(node.args["to"])[0], 1)
        case exp.Case():
            default = node.args.get("default")
            name, weight = _derived(default) if default is not None else (None, 0)
            return (name, weight) if weight > 1 else ("case", 1)
        case exp.Trim():
            return _TRIMS.get(node.args.get("position") or "", "btrim"), 2
        case exp.Interval():
            return "interval", 1
        case exp.Subquery():
            return _subquery(node.this)
        case _:
            name = _VALUES.get(type(node))
            return name, 2 if name is not None else 0


def _subquery(query: exp.Expr) -> tuple[str | None, int]:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select) or not query.expressions:
        return "column1", 2
    return output_name(query.expressions[0]), 2


def type_name(node: exp.Expr) -> tuple[str, bool]:
    """PostgreSQL's name of the type that the node writes, and whether it is an array of it."""
    if isinstance(node, exp.DataType):
        kind = node.this.value if isinstance(node.this, exp.DataType.Type) else str(node.this)
        if kind == "ARRAY":
            return type_name(node.expressions[0])[0], True
        if kind == "USER-DEFINED":
            return _written_name(node.args["kind"])
        return _TYPE_NAMES.get(kind, kind.lower()), False
    return str(node.this).lower(), False


def _written_name(kind: exp.Expr | str) -> tuple[str, bool]:
    if isinstance(kind, str):
        name = kind.lower()
    else:
        name = folded(kind.expression if isinstance(kind, exp.Dot) else kind)
    if name == "pg_char":
        return "char", False
    return (name[1:], True) if name.startswith("_") else (name, False)
