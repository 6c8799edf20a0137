"""Queries and expressions as they were written.

A node says what stands in the text and where (`at`, counted from 1 in the text that was parsed). It
knows neither names nor types of the catalog. Names are folded; the types of casts are known,
because their names are part of the language. Brackets leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from waterclock.model.pg_types import PgType

# --- Expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A name of one or more parts: a column, or a relation as a whole."""

    parts: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, or `t.*` with the parts in front."""

    parts: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Parameter:
    number: int
    at: int


@dataclass(frozen=True, slots=True)
class String:
    value: str
    at: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number without sign, as it was written."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    at: int


@dataclass(frozen=True, slots=True)
class Null:
    at: int


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(e AS t)`, `e::t` and `t 'constant'`; `at` is where the cast is, not the operand."""

    operand: Expression
    type: PgType
    at: int


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Expression
    right: Expression
    at: int


class Logic(Enum):
    AND = "AND"
    OR = "OR"


@dataclass(frozen=True, slots=True)
class Logical:
    logic: Logic
    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression
    at: int


class Test(Enum):
    """What IS asks; the value is the word."""

    NULL = "NULL"
    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Is:
    operand: Expression
    test: Test
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Distinct:
    """`a IS [NOT] DISTINCT FROM b`."""

    left: Expression
    right: Expression
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Between:
    operand: Expression
    low: Expression
    high: Expression
    negated: bool
    symmetric: bool
    at: int


@dataclass(frozen=True, slots=True)
class In:
    operand: Expression
    items: tuple[Expression, ...] | Query
    negated: bool
    at: int


class Pattern(Enum):
    """Kinds of pattern matching; the value is the operator that PostgreSQL has for it."""

    LIKE = "~~"
    ILIKE = "~~*"
    SIMILAR = "similar"


@dataclass(frozen=True, slots=True)
class Like:
    operand: Expression
    pattern: Expression
    escape: Expression | None
    kind: Pattern
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Quantified:
    """`a op ANY (...)` or `a op ALL (...)`, over a query or an array."""

    left: Expression
    operator: str
    is_all: bool
    right: Expression | Query
    at: int


@dataclass(frozen=True, slots=True)
class Case:
    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class SortItem:
    """An expression to sort by; `nulls_first` is None if nothing was said."""

    expression: Expression
    descending: bool
    nulls_first: bool | None
    at: int


class FrameUnit(Enum):
    ROWS = "ROWS"
    RANGE = "RANGE"
    GROUPS = "GROUPS"


@dataclass(frozen=True, slots=True)
class FrameBound:
    """`UNBOUNDED`, `CURRENT ROW` or an offset, before or after."""

    kind: str
    """`unbounded preceding`, `preceding`, `current row`, `following` or `unbounded following`."""
    offset: Expression | None
    at: int


class Exclusion(Enum):
    """What EXCLUDE leaves out of a frame; the value is how it is written."""

    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@dataclass(frozen=True, slots=True)
class Frame:
    unit: FrameUnit
    start: FrameBound
    end: FrameBound
    at: int
    exclusion: Exclusion | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """What is behind OVER or in a WINDOW clause. `base` names another window."""

    base: str | None
    partition: tuple[Expression, ...]
    order: tuple[SortItem, ...]
    frame: Frame | None
    at: int


@dataclass(frozen=True, slots=True)
class WindowName:
    """`OVER w`."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function call with all that may surround it.

    Syntax that PostgreSQL itself turns into calls is one here too: `a AT TIME ZONE b` is
    `timezone(b, a)`, `EXTRACT(f FROM a)` is `extract('f', a)`, `TRIM(LEADING a FROM b)` is
    `ltrim(b, a)`. `is_word` tells that it was written without brackets, such as `current_date`.
    `names` has the names of arguments that are given by name; they come last.
    """

    name: tuple[str, ...]
    arguments: tuple[Expression, ...]
    at: int
    is_star: bool = False
    is_distinct: bool = False
    is_variadic: bool = False
    order: tuple[SortItem, ...] = ()
    within: tuple[SortItem, ...] | None = None
    filter: Expression | None = None
    over: Window | WindowName | None = None
    is_word: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coalescing:
    """COALESCE, GREATEST, LEAST, NULLIF: like functions, but over any one type."""

    name: str
    arguments: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ArrayItems:
    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ArrayQuery:
    query: Query
    at: int


@dataclass(frozen=True, slots=True)
class Subscript:
    base: Expression
    index: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Slice:
    base: Expression
    low: Expression | None
    high: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class Row:
    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class NullRow:
    """`NULL::relation`."""

    name: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Field:
    """`(row).name`."""

    base: Expression
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class AllFields:
    """`(row).*`."""

    base: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Exists:
    query: Query
    at: int


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query in brackets as a value."""

    query: Query
    at: int


@dataclass(frozen=True, slots=True)
class Collate:
    operand: Expression
    collation: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Grouping:
    """`GROUPING(a, ...)`."""

    arguments: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Default:
    """The word DEFAULT in a row of VALUES."""

    at: int


Expression: TypeAlias = (
    "ColumnRef | Star | Parameter | String | Number | Boolean | Null | Cast | Unary | Binary"
    " | Logical | Not | Is | Distinct | Between | In | Like | Quantified | Case | Call | Coalescing"
    " | ArrayItems | ArrayQuery | Subscript | Slice | Row | NullRow | Field | AllFields"
    " | Exists | Subquery | Collate | Grouping | Default"
)

# --- Queries --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alias:
    """`AS name (columns)`."""

    name: str
    columns: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Table:
    name: tuple[str, ...]
    alias: Alias | None
    at: int


@dataclass(frozen=True, slots=True)
class Derived:
    """A query in FROM."""

    query: Query
    alias: Alias | None
    is_lateral: bool
    at: int


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """A set-returning function in FROM; several for ROWS FROM.

    `definitions` has the columns of one that gives rows of any shape, with their types, which
    stand at `defined_at`.
    """

    calls: tuple[Expression, ...]
    with_ordinality: bool
    alias: Alias | None
    at: int
    definitions: tuple[tuple[str, PgType], ...] = ()
    defined_at: int = 0


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    CROSS = "CROSS"


@dataclass(frozen=True, slots=True)
class Join:
    """`using` is None without USING; `alias` is what USING gives a name to."""

    kind: JoinKind
    left: FromItem
    right: FromItem
    on: Expression | None
    using: tuple[tuple[str, int], ...] | None
    is_natural: bool
    alias: Alias | None
    at: int


FromItem: TypeAlias = "Table | Derived | FunctionTable | Join"


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An output column. `label` is None if none was given."""

    expression: Expression
    label: str | None
    at: int


class GroupingKind(Enum):
    ROLLUP = "ROLLUP"
    CUBE = "CUBE"
    SETS = "GROUPING SETS"


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """ROLLUP, CUBE, GROUPING SETS; a plain list of expressions is one element."""

    kind: GroupingKind
    elements: tuple[GroupElement, ...]
    at: int


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Expressions that are grouped by together; `()` has none."""

    keys: tuple[Expression, ...]
    at: int


GroupElement: TypeAlias = "GroupKeys | GroupingSet"


@dataclass(frozen=True, slots=True)
class Select:
    """`distinct_on` is None without DISTINCT, () for a plain one.

    With `assigned` it is what a change of the first relation reads: all columns of that, then new
    values for the columns at these places, then what RETURNING shows of the rows after the change.
    """

    items: tuple[SelectItem, ...]
    sources: tuple[FromItem, ...]
    where: Expression | None
    group_by: tuple[GroupElement, ...] | None
    group_distinct: bool
    having: Expression | None
    windows: tuple[tuple[str, Window], ...]
    distinct_on: tuple[Expression, ...] | None
    at: int
    assigned: tuple[int, ...] | None = None


class SetOperator(Enum):
    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True, slots=True)
class SetOperation:
    operator: SetOperator
    is_all: bool
    left: Query
    right: Query
    at: int


@dataclass(frozen=True, slots=True)
class Values:
    rows: tuple[tuple[Expression, ...], ...]
    at: int


Body: TypeAlias = "Select | SetOperation | Values"


@dataclass(frozen=True, slots=True)
class CommonTable:
    name: str
    columns: tuple[str, ...]
    query: Query
    at: int


@dataclass(frozen=True, slots=True)
class With:
    tables: tuple[CommonTable, ...]
    is_recursive: bool
    at: int


@dataclass(frozen=True, slots=True)
class Lock:
    """`FOR UPDATE OF a, b` and its like: its first words, and the names with their places."""

    words: str
    relations: tuple[tuple[str, int], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query with what may come before and after it."""

    body: Body
    at: int
    with_: With | None = None
    order: tuple[SortItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    with_ties: bool = False
    locks: tuple[Lock, ...] = ()
