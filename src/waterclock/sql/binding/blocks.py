"""A bound query before it is written: its output columns, and how its rows are ordered and cut.

A block can still be told which types its columns are to have, because a set operation or an INSERT
decides that from outside; then it is written as SQL. The columns of what is written are called
`c1`, `c2` and so on, or as the caller says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from waterclock.model.pg_types import NO_MODIFIER
from waterclock.sql.binding.api import BoundColumn, SimpleQuery
from waterclock.sql.binding.ordering import directed, order_sql
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.row_order import RowOrder, SortedBy
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import is_unconstrained, name_of
from waterclock.sql.query import tree


@dataclass(frozen=True, slots=True)
class Output:
    """An output column; the expression may still be without a type."""

    name: str
    value: Typed
    row: Typed | None = None
    """Of a row, what it was before it became a value: known by its fields."""
    written: tree.Expression | None = None
    """What it was written as, if it is an expression of the select list."""


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A sort key: the place of an output column, or an expression of its own."""

    key: int | Typed
    descending: bool
    nulls_first: bool | None


@dataclass(frozen=True, slots=True)
class Cut:
    """LIMIT and OFFSET in SQL that gives numbers, or null where there is no limit."""

    limit: str | None
    offset: str

    def condition(self, number: str) -> str:
        """Whether the row of that number, counted from 1, is kept."""
        kept = f"{number} > {self.offset}"
        if self.limit is None:
            return kept
        return f"{kept} AND COALESCE({number} <= {self.offset} + {self.limit}, TRUE)"


Writer = Callable[[Sequence[str]], str]
"""Writes a query without order: given the SQL of each column, `expression AS name`."""


@dataclass(frozen=True, slots=True)
class Block:
    """A query. `write` gives its SQL without what comes last: the order and the limits."""

    outputs: tuple[Output, ...]
    write: Writer
    order: tuple[SortTerm, ...] = ()
    distinct_on: tuple[Typed, ...] | None = None
    limit: int | None = None
    offset: int | None = None
    with_ties: bool = False
    cut: Cut | None = None
    """Limits that are not known before the query runs."""
    made_in: tuple[SortTerm, ...] = ()
    """The order in which the rows come by themselves, if that is known: what LIMIT goes by."""
    simple: SimpleQuery | None = field(default=None, compare=False)

    @property
    def is_limited(self) -> bool:
        return self.limit is not None or bool(self.offset) or self.cut is not None

    def columns(self) -> tuple[BoundColumn, ...]:
        """The columns as others see them."""
        return tuple(_column(each) for each in self.outputs)

    def with_values(self, values: Sequence[Typed]) -> Block:
        """The same with the output columns converted."""
        outputs = tuple(
            replace(output, value=value) for output, value in zip(self.outputs, values, strict=True)
        )
        return replace(self, outputs=outputs)

    def as_source(self) -> tuple[Block, RowOrder]:
        """The block as a part of FROM, and the order of its rows.

        Sort keys that are no output columns become such, behind the others.
        """
        outputs = list(self.outputs)
        terms = []
        for term in self.sorted_by:
            if isinstance(term.key, Typed):
                outputs.append(Output("", term.key))
                term = replace(term, key=len(outputs) - 1)
            terms.append(term)
        block = replace(self, outputs=tuple(outputs))
        if self.order:
            block = replace(block, order=tuple(terms))
        elif self.made_in:
            block = replace(block, made_in=tuple(terms))
        return block, RowOrder(tuple(map(block._sorted, terms)), is_asked=bool(self.order))

    def _sorted(self, term: SortTerm) -> SortedBy:
        assert isinstance(term.key, int)
        value = self.outputs[term.key].value
        key = Typed(f"c{term.key + 1}", value.type, value.at, nullable=value.nullable)
        return SortedBy(key, term.descending, term.nulls_first)

    @property
    def sorted_by(self) -> tuple[SortTerm, ...]:
        """The order in which the rows come, as far as it is known."""
        return self.order or self.made_in

    def sql(self, names: Sequence[str] | None = None, *, ordered: bool = True) -> str:
        """The query in Spark SQL. Without `ordered`, an order that decides nothing is left out."""
        shown = [f"c{n + 1}" for n in range(len(self.outputs))] if names is None else list(names)
        is_sorted = bool(self.order) and ordered
        if not is_sorted and not self.is_limited and self.distinct_on is None:
            return self.write(
                [
                    f"{output.value.sql} AS {name}"
                    for output, name in zip(self.outputs, shown, strict=True)
                ]
                or ["1 AS c0"]
            )
        return self._layered(shown)

    def _layered(self, names: list[str]) -> str:
        """The rows and their sort keys inside, the order and the cut outside."""
        inner = [f"{output.value.sql} AS c{n + 1}" for n, output in enumerate(self.outputs)]
        keys, hidden = self._keys()
        inner += hidden
        shown = ", ".join(f"o.c{n + 1} AS {name}" for n, name in enumerate(names)) or "1 AS c0"
        source = f"({self.write(inner or ['1 AS c0'])})"
        order = [*keys]
        if self.is_limited or self.distinct_on is not None:
            order += self._ties()
        where = ""
        if self.distinct_on is not None:
            source, where = self._first_of_each(source, order)
        elif self.with_ties:
            return self._tied(source, keys, shown)
        if self.cut is not None:
            return self._numbered(f"{source} AS o{where}", order, shown, self.cut)
        by = f" ORDER BY {', '.join(order)}" if order else ""
        return f"SELECT {shown} FROM {source} AS o{where}{by}{self._cut()}"

    def _keys(self) -> tuple[list[str], list[str]]:
        """The keys over the layer inside, and the columns that have to be added to it for them."""
        keys, hidden = [], []
        for number, term in enumerate(self.sorted_by):
            if isinstance(term.key, int):
                value = self.outputs[term.key].value
                sql = order_sql(replace(value, sql=f"o.c{term.key + 1}"))
            else:
                hidden.append(f"{order_sql(term.key)} AS k{number + 1}")
                sql = f"o.k{number + 1}"
            keys.append(directed(sql, term.descending, term.nulls_first))
        for number, key in enumerate(self.distinct_on or ()):
            hidden.append(f"{key_sql(key)} AS d{number + 1}")
        return keys, hidden

    def _ties(self) -> list[str]:
        """Which of the rows that tie are shown depends on the data alone: all columns decide."""
        sorted_by = {term.key for term in self.sorted_by if isinstance(term.key, int)}
        return [
            directed(f"o.c{n + 1}", False, True)
            for n, output in enumerate(self.outputs)
            if n not in sorted_by
            or name_of(output.value.type) in ("interval", "bpchar", "jsonb")
            or is_unconstrained(output.value.type)
        ]

    def _first_of_each(self, source: str, order: list[str]) -> tuple[str, str]:
        keys = ", ".join(f"o.d{n + 1}" for n in range(len(self.distinct_on or ())))
        by = f" ORDER BY {', '.join(order) or 'NULL'}"
        number = f"ROW_NUMBER() OVER (PARTITION BY {keys}{by}) AS rn"
        return f"(SELECT o.*, {number} FROM {source} AS o)", " WHERE o.rn <= 1"

    def _tied(self, source: str, keys: list[str], shown: str) -> str:
        """FETCH ... WITH TIES: all rows that rank as the last one does."""
        by = ", ".join(keys)
        ranked = f"(SELECT o.*, RANK() OVER (ORDER BY {by}) AS rn FROM {source} AS o)"
        return f"SELECT {shown} FROM {ranked} AS o WHERE o.rn <= {self.limit} ORDER BY {by}"

    @staticmethod
    def _numbered(source: str, order: list[str], shown: str, cut: Cut) -> str:
        """The rows between limits that are computed: the engine's own are constants."""
        number = f"ROW_NUMBER() OVER (ORDER BY {', '.join(order) or 'NULL'}) AS n"
        inner = f"(SELECT o.*, {number} FROM {source}) AS o"
        return f"SELECT {shown} FROM {inner} WHERE {cut.condition('o.n')} ORDER BY o.n"

    def _cut(self) -> str:
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        return limit + (f" OFFSET {self.offset}" if self.offset else "")


def _column(output: Output) -> BoundColumn:
    value, column = output.value, output.value.column
    if column is None:
        written = output.written
        is_declared = isinstance(written, tree.Cast) and written.type.modifier != NO_MODIFIER
        return BoundColumn(output.name, value.type, value.nullable, is_declared=is_declared)
    oid, number, is_declared = column.table_oid, column.number, column.is_declared
    return BoundColumn(output.name, value.type, value.nullable, oid, number, is_declared)
