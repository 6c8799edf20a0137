package waterclock;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * The grouping set () gives a row also where there is nothing to group, as SQL says.
 *
 * Catalyst expands each row into one for each grouping set, so no row gives no group. Here each set
 * () gets one more row: all of its columns are null, a mark tells it apart, and aggregates pass it
 * over. So its group is always there, and has just the rows that it should have.
 */
public final class EmptySets extends Rule {
    private static final String SETS = "spark_grouping_id";
    private static final Set NULLS_DO_NOT_COUNT = new HashSet(Arrays.asList(new String[] {
        "Count", "Sum", "Average", "Min", "Max",
        "StddevSamp", "StddevPop", "VarianceSamp", "VariancePop"
    }));

    /** What makes the rule for a session. */
    public static final class Maker extends AbstractFunction1 {
        public Object apply(Object session) {
            return new EmptySets();
        }
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsUp(new Grouped());
    }

    private static final class Grouped extends AbstractPartialFunction {
        public boolean isDefinedAt(Object plan) {
            return plan instanceof Aggregate
                && ((Aggregate) plan).child() instanceof Expand
                && places((Aggregate) plan) != null;
        }

        public Object applyOrElse(Object plan, Function1 otherwise) {
            if (!isDefinedAt(plan)) return otherwise.apply(plan);
            return withRows((Aggregate) plan, (Expand) ((Aggregate) plan).child());
        }
    }

    /** Where the keys of the grouping sets stand: from the first place to before the second. */
    private static int[] places(Aggregate aggregate) {
        Seq output = aggregate.child().output();
        Seq grouped = aggregate.groupingExpressions();
        for (int keys = 0; keys < grouped.size(); keys++) {
            Object key = grouped.apply(keys);
            if (key instanceof Attribute && ((Attribute) key).name().equals(SETS)) {
                for (int n = keys; n < output.size(); n++) {
                    if (((Attribute) output.apply(n)).exprId().equals(((Attribute) key).exprId())) {
                        return new int[] {n - keys, n};
                    }
                }
            }
        }
        return null;
    }

    private static boolean isEmptySet(Seq projection, int[] places) {
        for (int n = places[0]; n < places[1]; n++) {
            Object key = projection.apply(n);
            if (!(key instanceof Literal) || ((Literal) key).value() != null) return false;
        }
        return true;
    }

    private static LogicalPlan withRows(Aggregate aggregate, Expand expand) {
        int[] places = places(aggregate);
        Alias mark = named(Literal.TrueLiteral(), "grouped");
        Seq columns = (Seq) expand.output().appended(mark);
        Seq plans = (Seq) ((Seq) nil()).appended(new Project(columns, expand));
        for (int n = 0; n < expand.projections().size(); n++) {
            Seq projection = (Seq) expand.projections().apply(n);
            if (isEmptySet(projection, places)) {
                plans = (Seq) plans.appended(row(expand.output(), projection, places[1]));
            }
        }
        if (plans.size() == 1) return aggregate;
        return new Aggregate(
            aggregate.groupingExpressions(),
            (Seq) aggregate.aggregateExpressions().map(new Only(mark.toAttribute())),
            new Union(plans, false, false),
            aggregate.hint());
    }

    /** The row of a set: nulls, the numbers of the set, and no mark. */
    private static LogicalPlan row(Seq output, Seq projection, int numbers) {
        Seq values = (Seq) nil();
        for (int n = 0; n < output.size(); n++) {
            Attribute column = (Attribute) output.apply(n);
            Expression value = n < numbers
                ? (Expression) new Literal(null, column.dataType())
                : (Expression) projection.apply(n);
            values = (Seq) values.appended(named(value, column.name()));
        }
        values = (Seq) values.appended(named(Literal.FalseLiteral(), "grouped"));
        return new Project(values, new OneRowRelation());
    }

    private static Alias named(Expression value, String name) {
        return new Alias(
            value,
            name,
            NamedExpression$.MODULE$.newExprId(),
            (Seq) nil(),
            Option.empty(),
            (Seq) nil());
    }

    private static Object nil() {
        return Nil$.MODULE$;
    }

    /** Has the aggregates of an expression see marked rows only. */
    private static final class Only extends AbstractFunction1 {
        private final Expression mark;

        Only(Expression mark) {
            this.mark = mark;
        }

        public Object apply(Object expression) {
            return ((Expression) expression).transformUp(new Marked(mark));
        }
    }

    /** Whether an aggregate passes the row over by itself: what it is called with is null there. */
    private static boolean passesOver(AggregateExpression call) {
        if (!call.filter().isEmpty()) return false;
        Expression function = (Expression) call.aggregateFunction();
        if (!NULLS_DO_NOT_COUNT.contains(function.getClass().getSimpleName())) return false;
        Seq arguments = function.children();
        for (int n = 0; n < arguments.size(); n++) {
            Expression argument = (Expression) arguments.apply(n);
            while (argument instanceof Cast) argument = ((Cast) argument).child();
            if (!(argument instanceof Attribute)) return false;
            if (((Attribute) argument).name().equals(SETS)) return false;
        }
        return arguments.size() > 0;
    }

    private static final class Marked extends AbstractPartialFunction {
        private final Expression mark;

        Marked(Expression mark) {
            this.mark = mark;
        }

        public boolean isDefinedAt(Object part) {
            return part instanceof AggregateExpression;
        }

        public Object applyOrElse(Object part, Function1 otherwise) {
            if (!isDefinedAt(part)) return otherwise.apply(part);
            AggregateExpression call = (AggregateExpression) part;
            if (passesOver(call)) return call;
            Expression only = call.filter().isEmpty()
                ? mark
                : (Expression) new And(mark, (Expression) call.filter().get());
            return call.copy(
                call.aggregateFunction(),
                call.mode(),
                call.isDistinct(),
                Option.apply(only),
                call.resultId());
        }
    }
}
