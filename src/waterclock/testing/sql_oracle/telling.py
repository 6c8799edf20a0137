"""Which error a call gives on a row, asked in the engine's driver: that takes no job.

An error that comes to Python takes some milliseconds, since Python asks for every part of it. So
the engine is first asked for its text alone. What an error of the same text was told as before, it
is told as now.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.faults import ENGINE_ERRORS, fault_of
from waterclock.testing.sql_oracle.oracle import Outcome

_CAUGHT = """
package waterclock.testing;

public final class Caught implements java.util.function.BiFunction {
    public Object apply(Object expression, Object row) {
        try {
            ((org.apache.spark.sql.catalyst.expressions.Expression) expression)
                .eval((org.apache.spark.sql.catalyst.InternalRow) row);
        } catch (Throwable thrown) {
            StringBuilder text = new StringBuilder();
            for (Throwable each = thrown; each != null; each = each.getCause()) {
                text.append(each.toString()).append('\\n');
            }
            return text.toString();
        }
        return null;
    }
}
"""
"""Gives the text of the error and of its causes, or null if there is none."""


class Telling:
    """Tells errors in a session, and remembers them."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        name = f"Caught{uuid.uuid4().hex}"  # a name of its own: methods are remembered by it
        compiler.cook(_CAUGHT.replace("Caught", name))
        caught = compiler.getClassLoader().loadClass(f"waterclock.testing.{name}")
        self._caught = caught.newInstance()
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._known: dict[str, Outcome] = {}

    def of(self, value: Expression, below: Logical) -> Callable[[int], Outcome]:
        """What is raised for a row, which is one of a local relation."""
        relation = next(each for each in below.walk() if each.kind == "LocalRelation")
        bound = self._bound(value, below)
        data = relation.java.data()
        return lambda row: self._raised(bound, self._through(below, data.apply(row)))

    def _raised(self, bound: Any, row: Any) -> Outcome:
        text = self._caught.apply(bound, row)
        if text is None:
            return "!?????"
        if text not in self._known:
            self._known[text] = _told(bound, row)
        return self._known[text]

    def _bound(self, value: Expression, below: Logical) -> Any:
        binding = getattr(self._expressions, "BindReferences$").__getattr__("MODULE$")
        attributes = getattr(self._expressions, "package$").__getattr__("MODULE$")
        return binding.bindReference(
            value.java, attributes.AttributeSeq(below.java.output()), False
        )

    def _through(self, below: Logical, row: Any) -> Any:
        """The row as the plan below gives it, which only picks and renames columns."""
        if below.kind == "LocalRelation":
            return row
        assert below.kind == "Project", below.kind
        [under] = below.children
        inner = self._through(under, row)
        projected = self._expressions.InterpretedMutableProjection(
            below.java.projectList(), under.java.output()
        )
        return projected.apply(inner).copy()


def _told(bound: Any, row: Any) -> Outcome:
    try:
        bound.eval(row)
    except ENGINE_ERRORS as error:
        return f"!{fault_of(error).sqlstate}"
    return "!?????"
