"""Catalyst's expressions and logical plans, as Python sees them.

A wrapper holds one JVM object and asks it only what the translation needs. Trees are read and
rebuilt, never changed in place: Catalyst's own are immutable. Each question is a call into the JVM
and takes some tens of microseconds, which is fine when a view is created and too slow for anything
that happens on every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def items(scala_seq: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


class Tree:
    """What expressions and plans have in common."""

    def __init__(self, java: Any) -> None:
        self.java = java

    @cached_property
    def kind(self) -> str:
        """The simple name of its class, such as `Project` or `Add`."""
        name: str = self.java.getClass().getSimpleName()
        return name.rstrip("$")

    def __str__(self) -> str:
        text: str = self.java.toString()
        return text.strip()


class Expression(Tree):
    """A Catalyst expression."""

    @cached_property
    def children(self) -> list[Expression]:
        return [Expression(child) for child in items(self.java.children())]

    @cached_property
    def sql(self) -> str:
        text: str = self.java.sql()
        return text

    @property
    def expr_id(self) -> int:
        """The identity of a named expression."""
        number: int = self.java.exprId().id()
        return number

    @property
    def name(self) -> str:
        text: str = self.java.name()
        return text

    @property
    def type_json(self) -> str:
        text: str = self.java.dataType().json()
        return text

    @property
    def nullable(self) -> bool:
        answer: bool = self.java.nullable()
        return answer

    @property
    def deterministic(self) -> bool:
        answer: bool = self.java.deterministic()
        return answer

    def walk(self) -> Iterator[Expression]:
        """This expression and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def references(self) -> set[int]:
        """The ids of the attributes it reads."""
        return {node.expr_id for node in self.walk() if node.kind == "AttributeReference"}

    def conjuncts(self) -> list[Expression]:
        """The conditions that all must hold for this one to hold."""
        if self.kind == "And":
            left, right = self.children
            return left.conjuncts() + right.conjuncts()
        return [self]


class Logical(Tree):
    """A node of a Catalyst logical plan."""

    @cached_property
    def children(self) -> list[Logical]:
        return [Logical(child) for child in items(self.java.children())]

    @cached_property
    def output(self) -> list[Expression]:
        """The attributes it produces."""
        return [Expression(attribute) for attribute in items(self.java.output())]

    def field(self, name: str) -> list[Any]:
        """The elements of a field that holds a sequence."""
        return items(getattr(self.java, name)())

    def walk(self) -> Iterator[Logical]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


class Builder:
    """Makes Catalyst expressions."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
        self._named = getattr(self._expressions, "NamedExpression$").__getattr__("MODULE$")
        self._ids = getattr(self._expressions, "ExprId$").__getattr__("MODULE$")
        self._metadata = jvm.org.apache.spark.sql.types.Metadata.empty()
        self._utf8 = jvm.org.apache.spark.unsafe.types.UTF8String.fromString
        self._types = getattr(jvm.org.apache.spark.sql.types, "DataType$").__getattr__("MODULE$")

    def seq(self, elements: Sequence[Tree]) -> Any:
        """A Scala sequence."""
        return self._jvm.PythonUtils.toSeq([element.java for element in elements])

    def new_id(self) -> int:
        """An id that no expression has."""
        number: int = self._named.newExprId().id()
        return number

    def data_type(self, type_json: str) -> Any:
        return self._types.fromJson(type_json)

    def attribute(self, expr_id: int, name: str, type_json: str, nullable: bool) -> Expression:
        """A reference to a column."""
        return Expression(
            self._expressions.AttributeReference(
                name,
                self.data_type(type_json),
                nullable,
                self._metadata,
                self._ids.apply(expr_id),
                self.seq([]),
            )
        )

    def alias(self, expression: Expression, name: str, expr_id: int) -> Expression:
        """The expression under a name and an id."""
        return Expression(
            self._expressions.Alias(
                expression.java,
                name,
                self._ids.apply(expr_id),
                self.seq([]),
                self._none,
                self.seq([]),
            )
        )

    def literal(self, value: Any, type_json: str) -> Expression:
        return Expression(self._expressions.Literal(value, self.data_type(type_json)))

    def call(self, kind: str, *arguments: Expression) -> Expression:
        """An expression of Catalyst's class `kind` over the arguments."""
        made = getattr(self._expressions, kind)
        return Expression(made(*(argument.java for argument in arguments)))

    def field(self, struct: Expression, place: int) -> Expression:
        """A field of a struct."""
        return Expression(self._expressions.GetStructField(struct.java, place, self._none))

    def struct(self, fields: Mapping[str, Expression]) -> Expression:
        """A struct of named fields."""
        parts: list[Expression] = []
        for name, value in fields.items():
            parts += (self.literal(self._utf8(name), '"string"'), value)
        return Expression(self._expressions.CreateNamedStruct(self.seq(parts)))

    def null_like(self, expression: Expression) -> Expression:
        """Null of the same type."""
        return Expression(self._expressions.Literal(None, expression.java.dataType()))

    def project(self, columns: Sequence[Expression], below: Logical) -> Any:
        """A logical plan that computes the columns over another plan."""
        logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        return logical.Project(self.seq(columns), below.java)

    def frame(self, plan: Any, spark: SparkSession) -> DataFrame:
        """A logical plan as a DataFrame."""
        dataset = getattr(self._jvm.org.apache.spark.sql.classic, "Dataset$")
        return DataFrame(getattr(dataset, "MODULE$").ofRows(spark._jsparkSession, plan), spark)

    def all_of(self, conditions: Sequence[Expression]) -> Expression | None:
        """The conjunction; None if there are no conditions."""
        if not conditions:
            return None
        first, *rest = conditions
        for condition in rest:
            first = self.call("And", first, condition)
        return first

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
        return Expression(expression.java.withNewChildren(self.seq(new)))
