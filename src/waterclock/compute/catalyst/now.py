"""`mz_now()`, as Catalyst sees it: the time at which a view is looked at, in milliseconds.

It is a function without arguments that gives a bigint. It counts as deterministic, so conditions
over it are pushed down as any other, but not as a constant, so nothing folds it. It is never
evaluated: a maintained view has nothing left of it once its plan is translated (`plan.temporal`).

The object behind it is a function of no arguments that every Spark has at hand, and whose result is
no number: whoever evaluates it gets an error. That matters. To tell whether an outer join may be
made an inner one, the optimizer tries conditions on a row of nulls, and takes a result that is not
true as proof; an error proves nothing. The rule that evaluates conditions over constant rows is
switched off with the session's other settings.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from waterclock.compute.catalyst.nodes import Expression

NAME = "mz_now"


def register_now(spark: SparkSession) -> None:
    """Make the function known in the session."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a session has a JVM"
    spark_sql = jvm.org.apache.spark.sql
    types = getattr(spark_sql.types, "DataType$").__getattr__("MODULE$")
    nothing = getattr(jvm.scala, "None$").__getattr__("MODULE$")
    not_a_number = getattr(spark_sql.catalyst.expressions, "CurrentDatabase$")
    function = spark_sql.expressions.SparkUserDefinedFunction(
        not_a_number.__getattr__("MODULE$"),
        types.fromJson('"long"'),
        jvm.PythonUtils.toSeq([]),
        nothing,
        nothing,
        False,  # never null
        True,  # deterministic
    )
    spark._jsparkSession.udf().register(NAME, function)


def is_now(expression: Expression) -> bool:
    """Whether the expression is a call of the function."""
    if expression.kind != "ScalaUDF":
        return False
    name = expression.java.udfName()
    return bool(name.isDefined() and name.get() == NAME)


def mentions_now(expression: Expression) -> bool:
    """Whether there is a call of the function anywhere in the expression."""
    return any(is_now(part) for part in expression.walk())
