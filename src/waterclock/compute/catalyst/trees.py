"""Making Catalyst's expressions and logical plans, out of what was read of others (`nodes`).

Nothing is changed in place: Catalyst's trees are immutable. Each call here is one into the JVM, or
a few, and takes about a tenth of a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from waterclock.compute.catalyst.nodes import Expression, Logical, Tree, items, with_ids
from waterclock.compute.catalyst.reading import glance

__all__ = ["Builder", "Expression", "Logical", "Tree", "items", "with_ids"]

_AT_ONCE = 8
"""Elements of a sequence passed to the JVM per call."""


class Builder:
    """Makes Catalyst expressions."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._glance = glance(jvm._gateway_client)
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
        self._named = getattr(self._expressions, "NamedExpression$").__getattr__("MODULE$")

    def seq(self, elements: Sequence[Tree]) -> Any:
        """A Scala sequence."""
        javas = [element.java for element in elements]
        made = self._glance.seq(*javas[:_AT_ONCE])
        for start in range(_AT_ONCE, len(javas), _AT_ONCE):
            made = self._glance.joined(made, self._glance.seq(*javas[start : start + _AT_ONCE]))
        return made

    def new_id(self) -> int:
        """An id that no expression has."""
        number: int = self._glance.newId()
        return number

    def data_type(self, type_json: str) -> Any:
        return self._glance.type(type_json)

    def attribute(self, expr_id: int, name: str, type_json: str, nullable: bool) -> Expression:
        """A reference to a column."""
        made = self._glance.attribute(expr_id, name, type_json, nullable)
        attribute = Expression.made(made, "AttributeReference", ())
        known = {"expr_id": expr_id, "name": name, "type_json": type_json, "nullable": nullable}
        attribute.__dict__.update(known)
        return attribute

    def alias(self, expression: Expression, name: str, expr_id: int) -> Expression:
        """The expression under a name and an id."""
        made = self._glance.alias(expression.java, name, expr_id)
        alias = Expression.made(made, "Alias", [expression])
        alias.__dict__.update(expr_id=expr_id, name=name)
        return alias

    def literal(self, value: Any, type_json: str) -> Expression:
        return Expression.made(self._glance.literal(value, type_json), "Literal", ())

    def number(self, value: Decimal) -> Expression:
        """A literal of the decimal type that has just the digits of the value."""
        literals = getattr(self._expressions, "Literal$").__getattr__("MODULE$")
        return Expression(literals.apply(value))

    def rounded(self, value: Expression, *, up: bool) -> Expression:
        """A decimal rounded to a whole one."""
        kind = self._expressions.Ceil if up else self._expressions.Floor
        return Expression(kind(value.java, True))

    def text(self, value: str) -> Expression:
        """A string literal."""
        return Expression.made(self._glance.text(value), "Literal", ())

    def as_text(self, expression: Expression) -> Expression:
        """The value as Spark shows it."""
        return self.cast(expression, '"string"')

    def cast(self, expression: Expression, type_json: str) -> Expression:
        """The value as another type; a value that has no such form is an error."""
        made = self._glance.cast(expression.java, type_json)
        return Expression.made(made, "Cast", [expression])

    def nullable(self, expression: Expression) -> Expression:
        """The value as one that may be null, and so may every part of it, as far as types say."""
        return Expression(self._glance.nullable(expression.java))

    def is_widening(self, cast: Expression) -> bool:
        """Whether a cast has a result for every value."""
        answer: bool = self._glance.isWidening(cast.java)
        return answer

    def first_of(self, expressions: Sequence[Expression]) -> Expression:
        """The first that is not null."""
        made = self._expressions.Coalesce(self.seq(expressions))
        return Expression.made(made, "Coalesce", expressions)

    def array(self, elements: Sequence[Expression]) -> Expression:
        """An array of expressions of one type."""
        return Expression(self._expressions.CreateArray(self.seq(elements), False))

    def transformed(
        self,
        array: Expression,
        body: Callable[[Expression, Expression], Expression],
    ) -> Expression:
        """What `body` makes of each element of the array, given the element and its place."""
        element_type = array.java.dataType().elementType()
        element = self._variable("element", element_type, nullable=True)
        place = self._variable("place", self.data_type('"integer"'), nullable=False)
        function = self._expressions.LambdaFunction(
            body(element, place).java, self.seq([element, place]), False
        )
        return Expression(self._expressions.ArrayTransform(array.java, function))

    def present(self, array: Expression) -> Expression:
        """The array without its null elements."""
        element_type = array.java.dataType().elementType()
        element = self._variable("element", element_type, nullable=True)
        is_there = self.call("IsNotNull", element)
        function = self._expressions.LambdaFunction(is_there.java, self.seq([element]), False)
        return Expression(self._expressions.ArrayFilter(array.java, function))

    def size(self, array: Expression) -> Expression:
        """How many elements the array has; null if there is no array."""
        return Expression(self._expressions.Size(array.java, False))

    def _variable(self, name: str, data_type: Any, *, nullable: bool) -> Expression:
        cell = self._jvm.java.util.concurrent.atomic.AtomicReference()
        return Expression(
            self._expressions.NamedLambdaVariable(
                name, data_type, nullable, self._named.newExprId(), cell
            )
        )

    def call(self, kind: str, *arguments: Expression) -> Expression:
        """An expression of Catalyst's class `kind` over the arguments."""
        made = getattr(self._expressions, kind)(*(argument.java for argument in arguments))
        return Expression.made(made, kind, arguments)

    def field(self, struct: Expression, place: int) -> Expression:
        """A field of a struct."""
        made = self._expressions.GetStructField(struct.java, place, self._none)
        return Expression.made(made, "GetStructField", [struct])

    def struct(self, fields: Mapping[str, Expression]) -> Expression:
        """A struct of named fields."""
        names = "".join(f"{_units(name)}:{name}" for name in fields)
        return Expression(self._glance.struct(names, self.seq(list(fields.values()))))

    def normalised(self, expression: Expression) -> Expression:
        """The value with one zero and one NaN, also inside arrays and structs."""
        rules = self._jvm.org.apache.spark.sql.catalyst.optimizer
        rule = getattr(rules, "NormalizeFloatingNumbers$").__getattr__("MODULE$")
        return Expression(rule.normalize(expression.java))

    def null_like(self, expression: Expression) -> Expression:
        """Null of the same type."""
        return Expression.made(self._glance.nullLike(expression.java), "Literal", ())

    def null_element_of(self, array: Expression) -> Expression:
        """Null of the type of the array's elements."""
        return Expression(self._expressions.Literal(None, array.java.dataType().elementType()))

    def project(self, columns: Sequence[Expression], below: Logical) -> Any:
        """A logical plan that computes the columns over another plan."""
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        return logical.Project(self.seq(columns), below.java)

    def sorted(self, keys: Sequence[Expression], below: Logical) -> Logical:
        """A logical plan with the rows of each partition sorted."""
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        return Logical(logical.Sort(self.seq(keys), False, below.java, self._none))

    def brought_together(self, key: Expression, parts: int, below: Logical) -> Logical:
        """A logical plan with rows of the same key in one partition."""
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        companion = getattr(logical, "RepartitionByExpression$").__getattr__("MODULE$")
        return Logical(companion.apply(self.seq([key]), below.java, parts))

    def ascending(self, expression: Expression) -> Expression:
        """The expression as a key to sort by."""
        order = getattr(self._expressions, "SortOrder$").__getattr__("MODULE$")
        up = getattr(self._expressions, "Ascending$").__getattr__("MODULE$")
        return Expression(order.apply(expression.java, up, self.seq([])))

    def is_orderable(self, expression: Expression) -> bool:
        """Whether values of its type can be sorted.

        Not by `RowOrdering.isOrderable`: a struct type is also a sequence, which another method
        of that name takes, and which of the two is called changes from one JVM to the next.
        """
        answer: bool = self._expressions.OrderUtils.isOrderable(expression.java.dataType())
        return answer

    def windows(
        self,
        columns: Sequence[Expression],
        partition: Expression,
        order: Sequence[Expression],
        below: Logical,
    ) -> Logical:
        """A logical plan that adds window functions, named, over the partitions of one column."""
        placed = [self._partitioned(column, partition, order) for column in columns]
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        made = logical.Window(
            self.seq(placed), self.seq([partition]), self.seq(order), below.java, self._none
        )
        return Logical(made)

    def _partitioned(
        self, column: Expression, partition: Expression, order: Sequence[Expression]
    ) -> Expression:
        [window] = column.children
        if window.kind != "WindowExpression":  # the optimizer knew what it gives: a constant
            return column
        spec = self._expressions.WindowSpecDefinition(
            self.seq([partition]), self.seq(order), window.java.windowSpec().frameSpecification()
        )
        moved = Expression(self._expressions.WindowExpression(window.java.windowFunction(), spec))
        return self.alias(moved, column.name, column.expr_id)

    def over_all(self, function: Expression) -> Expression:
        """An aggregate function as a window function over the whole partition."""
        aggregate = self._expressions.aggregate
        call = aggregate.AggregateExpression(
            function.java,
            getattr(aggregate, "Complete$").__getattr__("MODULE$"),
            False,
            self._none,
            self._named.newExprId(),
        )
        frame = self._expressions.SpecifiedWindowFrame(
            *(
                getattr(self._expressions, f"{name}$").__getattr__("MODULE$")
                for name in ("RowFrame", "UnboundedPreceding", "UnboundedFollowing")
            )
        )
        spec = self._expressions.WindowSpecDefinition(self.seq([]), self.seq([]), frame)
        return Expression(self._expressions.WindowExpression(call, spec))

    def tried(self, function: Expression) -> Expression:
        """A sum or an average that is null where it would be an error."""
        mode = getattr(self._expressions, "EvalMode$").__getattr__("MODULE$").TRY()
        child = function.children[0].java
        if function.kind == "Average":
            return Expression(function.java.copy(child, mode))
        context = function.java.evalContext()
        context = context.copy(mode, context.allowDecimalPrecisionLoss())
        return Expression(function.java.copy(child, context))

    def count_of(self, function: Expression) -> Expression:
        """How many values an aggregate function takes in."""
        return Expression(self._expressions.aggregate.Count(self.seq(function.children[:1])))

    def with_function(self, call: Expression, function: Expression) -> Expression:
        """An aggregate call of another function over the same rows."""
        java = call.java
        made = self._expressions.aggregate.AggregateExpression(
            function.java, java.mode(), java.isDistinct(), java.filter(), self._named.newExprId()
        )
        return Expression(made)

    def raised(self, message: str) -> Expression:
        """An expression that has no value, only this error."""
        return Expression(self._expressions.RaiseError(self.text(message).java))

    def without_filter(self, call: Expression) -> Expression:
        """An aggregate call that takes in all rows."""
        java = call.java
        made = self._expressions.aggregate.AggregateExpression(
            java.aggregateFunction(), java.mode(), java.isDistinct(), self._none, java.resultId()
        )
        return Expression(made)

    def aggregate_of_nothing(
        self, results: Sequence[Expression], columns: Sequence[Expression]
    ) -> Logical:
        """A logical plan with the one row that aggregates have over no rows at all."""
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        empty = logical.LocalRelation(self.seq(columns), self.seq([]), False, self._none)
        made = logical.Aggregate(self.seq([]), self.seq(results), empty, self._none)
        return Logical(made)

    def normalised_over(
        self, columns: Sequence[Expression], expressions: Iterable[Expression]
    ) -> list[Any]:
        """JVM objects that are equal if expressions mean the same whatever the columns' ids are."""
        plans = self._jvm.org.apache.spark.sql.catalyst.plans
        companion = getattr(plans, "QueryPlan$").__getattr__("MODULE$")
        row = self._expressions.package.AttributeSeq(self.seq(columns))
        return [companion.normalizeExpressions(each.java, row) for each in expressions]

    def with_generator(self, generate: Logical, generator: Expression) -> Logical:
        """A `Generate` with another generator, over the same plan."""
        java = generate.java
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        made = logical.Generate(
            generator.java,
            java.unrequiredChildIndex(),
            java.outer(),
            java.qualifier(),
            java.generatorOutput(),
            java.child(),
        )
        return Logical(made)

    def frame(self, plan: Any, spark: SparkSession) -> DataFrame:
        """A logical plan as a DataFrame."""
        dataset = getattr(self._jvm.org.apache.spark.sql.classic, "Dataset$")
        return DataFrame(getattr(dataset, "MODULE$").ofRows(spark._jsparkSession, plan), spark)

    def is_ordered_by_ids(self, plan: Any) -> bool:
        """Whether parts of an optimized plan are in an order that may be another next time."""
        answer: bool = self._jvm.waterclock.Renumbering.isOrderedByIds(plan)
        return answer

    def numbered(self, plan: Any) -> Any:
        """An analyzed plan whose columns have numbers of its own as ids (`Renumbering`)."""
        return self._jvm.waterclock.Renumbering.numbered(plan)

    def with_fresh_ids(self, plan: Any) -> Any:
        """What was made of such a plan, with ids that nobody else has."""
        return self._jvm.waterclock.Renumbering.fresh(plan)

    def all_of(self, conditions: Sequence[Expression]) -> Expression | None:
        """The conjunction; None if there are no conditions."""
        if not conditions:
            return None
        first, *rest = conditions
        for condition in rest:
            first = self.call("And", first, condition)
        return first

    def with_children(self, expression: Expression, children: Sequence[Expression]) -> Expression:
        """The same expression over others."""
        made = expression.java.withNewChildren(self.seq(children))
        return Expression.made(made, expression.kind, children)

    def rewrite(
        self, expression: Expression, replace: Callable[[Expression], Expression | None]
    ) -> Expression:
        """The expression with each subtree replaced for which `replace` gives another one."""
        other = replace(expression)
        if other is not None:
            return other
        old = expression.children
        new = [self.rewrite(child, replace) for child in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return expression
        return self.with_children(expression, new)


def _units(text: str) -> int:
    """The length of a text as Java counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
