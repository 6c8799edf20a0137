"""Catalyst's optimizer rules, each reviewed, and those that Waterclock excludes.

A rule may change an answer where it relies on something that PostgreSQL does not promise: that two
equal values are the same value, that names are unique, that arithmetic may be reordered. Such rules
are excluded, and so are rules that no plan of ours needs, because what never runs can not be wrong.
`REVIEWED` names every rule of the Spark version in use, with the reason why it is safe; a test
compares it with what Spark has, so that a new version brings no rule that nobody has looked at.

Rules that Spark does not let anybody exclude are reviewed like the others. One of them,
`ReplaceExceptWithFilter`, maps columns by name, so a setting turns it off.
"""

from __future__ import annotations

from collections.abc import Mapping

PACKAGE = "org.apache.spark.sql."

EXCLUDED: Mapping[str, str] = {
    # Wrong for PostgreSQL's semantics.
    "catalyst.optimizer.DecimalAggregates": "adds decimals up as floating-point numbers",
    "catalyst.optimizer.ConvertToLocalRelation": "evaluates mz_now() over constant rows",
    "catalyst.optimizer.ConstantPropagation": (
        "puts a constant in the place of a column that equals it, but -0.0 equals 0.0 without"
        " being the same value"
    ),
    "catalyst.optimizer.ReorderAssociativeOperator": (
        "changes the order of checked additions, and so whether one of them overflows"
    ),
    "catalyst.optimizer.SimplifyCaseConversionExpressions": (
        "takes lower(upper(x)) for lower(x), which other letters than ASCII's do not obey"
    ),
    "execution.planmerging.MergeSubplans": (
        "makes a struct of the values of several subqueries, whose names may repeat"
    ),
    "catalyst.optimizer.RemoveRedundantAliases": (
        "takes an alias of the same name for none, also in a LATERAL UNION, whose columns are then"
        " those of the query around, and the plan is none"
    ),
    "catalyst.optimizer.FoldablePropagation": (
        "puts constants in the place of the columns that EXCEPT ALL and INTERSECT ALL make, which"
        " are under the numbers of those that they are made of"
    ),
    "catalyst.optimizer.OptimizeCsvJsonExprs": "prunes structs by the names of fields",
    "catalyst.optimizer.OptimizeUpdateFields": "works on structs by the names of fields",
    # Not needed: tables and files of Spark's own, which no plan of ours reads or writes.
    "execution.OptimizeMetadataOnlyQuery": "for Spark's partitioned tables",
    "execution.datasources.PruneFileSourcePartitions": "for Spark's partitioned tables",
    "execution.datasources.PullOutVariantExtractions": "for Spark's VARIANT type",
    "execution.datasources.PushVariantIntoScan": "for Spark's VARIANT type",
    "execution.datasources.SchemaPruning": "for Spark's file sources; prunes by names",
    "execution.datasources.V1Writes": "for writing Spark's tables",
    "execution.datasources.v2.OptimizeMetadataOnlyDeleteFromTable": "for changing Spark's tables",
    "execution.dynamicpruning.PartitionPruning": "for Spark's partitioned tables",
    "execution.dynamicpruning.RowLevelOperationRuntimeGroupFiltering": "changes Spark's tables",
    # Not needed: typed Datasets, which no plan of ours has.
    "catalyst.optimizer.CombineTypedFilters": "for typed Datasets",
    "catalyst.optimizer.EliminateMapObjects": "for typed Datasets",
    "catalyst.optimizer.EliminateSerialization": "for typed Datasets",
    "catalyst.optimizer.ObjectSerializerPruning": "for typed Datasets; prunes by names",
    # Not needed: they only decide how fast, on statistics that our leaves do not have.
    "catalyst.optimizer.CollapseGroupedSumOfCount": "adds counts up where it counts on groups",
    "catalyst.optimizer.CostBasedJoinReorder": "there are no statistics to reorder by",
    "catalyst.optimizer.InjectRuntimeFilter": "plans run again, and would keep the filter",
    "catalyst.optimizer.OptimizeRand": "folds comparisons of random numbers",
    "catalyst.optimizer.PushDownJoinThroughUnion": "copies a side of the join",
    "catalyst.optimizer.SimplifyDateTimeConversions": "for texts in formats of Spark's",
}
"""Rules that do not run, each with the reason."""

_PRESERVES = "maps columns by expression id; the same rows whatever the values are"
_TYPES = "folds by value under ANSI semantics; an error in a branch not taken stays there"
_NULLS = "relies on nullability, which is that of our schemas: a column is nullable unless declared"
_DETERMINISTIC = "moves deterministic conditions only, as PostgreSQL moves them too"
_REQUIRED = "part of what a construct means; maps columns by expression id"
_PYTHON = "moves Python functions into nodes of their own"
_ORDER = "changes the order of rows only where nothing can see it"

REVIEWED: Mapping[str, str] = {
    "catalyst.analysis.UpdateAttributeNullability": _NULLS,
    "catalyst.optimizer.CheckCartesianProducts": "a check, off by default",
    "catalyst.optimizer.CleanUpTempCTEInfo": _PRESERVES,
    "catalyst.optimizer.CollapseProject": "merges deterministic projections, by expression id",
    "catalyst.optimizer.CollapseRepartition": _ORDER,
    "catalyst.optimizer.CollapseWindow": "merges windows of the same partition and order",
    "catalyst.optimizer.ColumnPruning": _PRESERVES,
    "catalyst.optimizer.CombineConcats": "concatenation is associative, nulls included",
    "catalyst.optimizer.CombineUnions": "UNION ALL is associative; by position",
    "catalyst.optimizer.ConstantFolding": _TYPES,
    "catalyst.optimizer.ConvertToCatalyst": "for functions of other systems; nothing to do here",
    "catalyst.optimizer.EliminateAggregateFilter": "a filter that is a constant",
    "catalyst.optimizer.EliminateDistinct": "DISTINCT in min and max decides nothing",
    "catalyst.optimizer.EliminateLimits": "relies on the most rows that a plan can have",
    "catalyst.optimizer.EliminateOffsets": "relies on the most rows that a plan can have",
    "catalyst.optimizer.EliminateOuterJoin": (
        "evaluates a deterministic condition for a row of nulls; true only if no such row passes"
    ),
    "catalyst.optimizer.EliminateSorts": _ORDER,
    "catalyst.optimizer.EliminateWindowPartitions": "constants in PARTITION BY decide nothing",
    "catalyst.optimizer.ExtractPythonUDFFromJoinCondition": _PYTHON,
    "catalyst.optimizer.GenerateOptimization": "prunes fields by ordinal",
    "catalyst.optimizer.InferFiltersFromConstraints": (
        "copies a condition to an equal column: equal numbers that differ, such as 0.0 and -0.0,"
        " are compared by keys made of the column, which it does not see through"
    ),
    "catalyst.optimizer.InferFiltersFromGenerate": "an empty array gives no row without OUTER",
    "catalyst.optimizer.InferWindowGroupLimit": "a rank below a bound, which the filter still asks",
    "catalyst.optimizer.InlineCTE": "deterministic queries only, or those read once",
    "catalyst.optimizer.LikeSimplification": "prefix, suffix and infix of the binary collation",
    "catalyst.optimizer.LimitPushDown": _ORDER,
    "catalyst.optimizer.LimitPushDownThroughWindow": (
        "ranks and frames that end at the current row do not depend on later rows"
    ),
    "catalyst.optimizer.NormalizeFloatingNumbers": "one zero and one NaN in keys, as in PostgreSQL",
    "catalyst.optimizer.NullDownPropagation": _NULLS,
    "catalyst.optimizer.NullPropagation": _NULLS,
    "catalyst.optimizer.OptimizeExpand": _PRESERVES,
    "catalyst.optimizer.OptimizeIn": "IN with constants, compared as by =",
    "catalyst.optimizer.OptimizeJoinCondition": "a = b OR both null is the null-safe equality",
    "catalyst.optimizer.OptimizeOneRowPlan": "relies on the most rows that a plan can have",
    "catalyst.optimizer.OptimizeOneRowRelationSubquery": "a query without FROM is its expression",
    "catalyst.optimizer.OptimizeRepartition": _ORDER,
    "catalyst.optimizer.OptimizeWindowFunctions": "first() of a whole frame",
    "catalyst.optimizer.Optimizer$FinishAnalysis": _REQUIRED,
    "catalyst.optimizer.Optimizer$OptimizeSubqueries": _REQUIRED,
    "catalyst.optimizer.Optimizer$UpdateCTERelationStats": _ORDER,
    "catalyst.optimizer.PropagateEmptyRelation": (
        "an aggregate without keys keeps its row; the row of a grouping set () is one of the input"
        " (`jvm/EmptySets`), so an input with one is never empty"
    ),
    "catalyst.optimizer.PruneFilters": "conditions that are constants or already hold",
    "catalyst.optimizer.PullOutNestedDataOuterRefExpressions": _REQUIRED,
    "catalyst.optimizer.PullUpProjectAliasThroughWindow": _PRESERVES,
    "catalyst.optimizer.PullupCorrelatedPredicates": _REQUIRED,
    "catalyst.optimizer.PushDownLeftSemiAntiJoin": _DETERMINISTIC,
    "catalyst.optimizer.PushDownPredicates": _DETERMINISTIC,
    "catalyst.optimizer.PushExtraPredicateThroughJoin": _DETERMINISTIC,
    "catalyst.optimizer.PushFoldableIntoBranches": _TYPES,
    "catalyst.optimizer.PushLeftSemiLeftAntiThroughJoin": _DETERMINISTIC,
    "catalyst.optimizer.PushPredicateThroughJoin": _DETERMINISTIC,
    "catalyst.optimizer.PushPredicateThroughNonJoin": _DETERMINISTIC,
    "catalyst.optimizer.PushProjectionThroughLimitAndOffset": _PRESERVES,
    "catalyst.optimizer.PushProjectionThroughUnion": "by position",
    "catalyst.optimizer.PushdownPredicatesAndPruneColumnsForCTEDef": _DETERMINISTIC,
    "catalyst.optimizer.ReassignLambdaVariableID": _PRESERVES,
    "catalyst.optimizer.RemoveLiteralFromGroupExpressions": "keeps a key if all are constants",
    "catalyst.optimizer.RemoveNoopOperators": _PRESERVES,
    "catalyst.optimizer.RemoveNoopUnion": "deterministic children that are the same",
    "catalyst.optimizer.RemoveRedundantAggregates": "an outer DISTINCT of the inner keys",
    "catalyst.optimizer.RemoveRedundantSorts": _ORDER,
    "catalyst.optimizer.RemoveRepetitionFromGroupExpressions": _PRESERVES,
    "catalyst.optimizer.ReorderJoin": _DETERMINISTIC,
    "catalyst.optimizer.ReplaceCTERefWithRepartition": _ORDER,
    "catalyst.optimizer.ReplaceDeduplicateWithAggregate": "for Datasets; nothing to do here",
    "catalyst.optimizer.ReplaceDistinctWithAggregate": _REQUIRED,
    "catalyst.optimizer.ReplaceExceptWithAntiJoin": "by position, null-safe",
    "catalyst.optimizer.ReplaceExceptWithFilter": (
        "maps columns by name, and takes both sides for the same rows: turned off by a setting"
    ),
    "catalyst.optimizer.ReplaceIntersectWithSemiJoin": "by position, null-safe",
    "catalyst.optimizer.ReplaceNullWithFalseInPredicate": "null and false pass no filter",
    "catalyst.optimizer.ReplaceUpdateFieldsExpression": _REQUIRED,
    "catalyst.optimizer.RewriteCorrelatedScalarSubquery": (
        "an aggregate over no rows is evaluated apart, by expression id"
    ),
    "catalyst.optimizer.RewriteDistinctAggregates": _REQUIRED,
    "catalyst.optimizer.RewriteExceptAll": "by position",
    "catalyst.optimizer.RewriteIntersectAll": "by position",
    "catalyst.optimizer.RewriteLateralSubquery": _REQUIRED,
    "catalyst.optimizer.RewriteNonCorrelatedExists": "EXISTS is whether one row is there",
    "catalyst.optimizer.RewritePredicateSubquery": "a null-aware anti join for NOT IN",
    "catalyst.optimizer.RewriteWithExpression": _REQUIRED,
    "catalyst.optimizer.SimplifyBinaryComparison": _NULLS,
    "catalyst.optimizer.SimplifyCasts": "casts to the type that a value has, or wider numbers",
    "catalyst.optimizer.SimplifyConditionals": _TYPES,
    "catalyst.optimizer.SimplifyExtractValueOps": "fields by ordinal, of structs made in place",
    "catalyst.optimizer.BooleanSimplification": "three-valued logic",
    "catalyst.optimizer.TransposeWindow": "windows that do not read each other",
    "catalyst.optimizer.UnwrapCastInBinaryComparison": "bounds of the narrower type are minded",
    "execution.datasources.MarkSingleTaskExecution": _ORDER,
    "execution.datasources.v2.GroupBasedRowLevelOperationScanPlanning": "for Spark's tables",
    "execution.datasources.v2.V2ScanPartitioningAndOrdering": "for Spark's tables",
    "execution.datasources.v2.V2ScanRelationPushDown": "for Spark's tables",
    "execution.datasources.v2.V2Writes": "for Spark's tables",
    "execution.dynamicpruning.CleanupDynamicPruningFilters": "for Spark's partitioned tables",
    "execution.python.ExtractGroupingPythonUDFFromAggregate": _PYTHON,
    "execution.python.ExtractPythonUDFFromAggregate": _PYTHON,
    "execution.python.ExtractPythonUDFs": _PYTHON,
    "execution.python.ExtractPythonUDTFs": _PYTHON,
}
"""Rules that run, each with why it may."""


def excluded_rules() -> str:
    """The value of Spark's setting."""
    return ",".join(PACKAGE + rule for rule in EXCLUDED)
