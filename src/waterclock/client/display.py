"""Results as people look at them: a table of text in a terminal, an HTML table in a notebook.

Only the first rows are shown, and long values are cut, so that looking at a large result costs
nothing. Pure.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import pyarrow as pa

ROWS = 20
_LONGEST = 60
"""Characters of a value that are shown."""
_ELLIPSIS = "\u2026"


def text_table(table: pa.Table) -> str:
    """The columns side by side, numbers to the right, as psql has it."""
    if not table.num_columns:
        return ""
    cells = _cells(table)
    widths = [max(map(len, (name, *column))) for name, column in zip(*cells, strict=True)]
    right = [_is_number(field.type) for field in table.schema]
    names, columns = cells
    lines = [" | ".join(name.center(w) for name, w in zip(names, widths, strict=True)).rstrip()]
    lines.append("-+-".join("-" * width for width in widths))
    for row in zip(*columns, strict=True):
        shown = (
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(row, widths, right, strict=True)
        )
        lines.append(" | ".join(shown).rstrip())
    lines.append(_count(table))
    return "\n".join(lines)


def html_table(table: pa.Table) -> str:
    """The same for a notebook."""
    if not table.num_columns:
        return ""
    names, columns = _cells(table)
    aligned = ["right" if _is_number(field.type) else "left" for field in table.schema]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align: {side}">{html.escape(value)}</td>'
            for value, side in zip(row, aligned, strict=True)
        )
        + "</tr>"
        for row in zip(*columns, strict=True)
    )
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p>{html.escape(_count(table))}</p>"
    )


def _cells(table: pa.Table) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The names of the columns, and the texts of the first rows of each."""
    first = table.slice(0, ROWS)
    columns = [[_cell(value) for value in column.to_pylist()] for column in first.columns]
    return [_line(name) for name in table.column_names], columns


def _cell(value: object) -> str:
    return "" if value is None else _line(str(value))


def _line(text: str) -> str:
    shown = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + _ELLIPSIS
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _count(table: pa.Table) -> str:
    count = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
    return f"({count})" if table.num_rows <= ROWS else f"({count}, the first {ROWS} are shown)"
