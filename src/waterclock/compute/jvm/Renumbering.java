package waterclock;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * A plan with other ids for its columns.
 *
 * Catalyst counts ids up as long as the process lives, and orders some things by their hashes: the
 * sets of rows for several DISTINCT, for one. So the same query comes out in different orders. A
 * plan whose ids are its own numbers, from 0 on in the order in which they stand there, comes out
 * the same each time. Afterwards it gets ids that nobody else has.
 */
public final class Renumbering extends AbstractPartialFunction {
    private static final UUID OWN = new UUID(0x77617465, 0x72636c6b);
    private final Map known = new HashMap();
    private final boolean backwards;

    private Renumbering(boolean backwards) {
        this.backwards = backwards;
    }

    /** Whether the optimizer has expanded rows in a plan, or in a query inside. */
    public static boolean isOrderedByIds(LogicalPlan plan) {
        if (plan instanceof Expand) return true;
        return isAnyOrderedByIds(plan.children()) || isAnyOrderedByIds(plan.subqueries());
    }

    private static boolean isAnyOrderedByIds(scala.collection.Iterable plans) {
        scala.collection.Iterator each = plans.iterator();
        while (each.hasNext()) if (isOrderedByIds((LogicalPlan) each.next())) return true;
        return false;
    }

    /** The plan under its own numbers. What WITH names stands where it is read: copies get ids. */
    public static LogicalPlan numbered(LogicalPlan plan) {
        LogicalPlan whole = new InlineCTE(false, false, false).apply(plan);
        return (LogicalPlan) whole.transformAllExpressionsWithSubqueries(new Renumbering(false));
    }

    /** A plan that was made of such a one, under ids that nobody else has. */
    public static LogicalPlan fresh(LogicalPlan plan) {
        return (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Renumbering(true));
    }

    public boolean isDefinedAt(Object part) {
        return part instanceof AttributeReference
            || part instanceof Alias
            || part instanceof OuterReference;
    }

    public Object applyOrElse(Object part, Function1 otherwise) {
        return isDefinedAt(part) ? renumbered((NamedExpression) part) : otherwise.apply(part);
    }

    private Object renumbered(NamedExpression part) {
        if (part instanceof OuterReference) {
            return new OuterReference((NamedExpression) renumbered(((OuterReference) part).e()));
        }
        if (part instanceof AttributeReference) {
            return ((AttributeReference) part).withExprId(other(part.exprId()));
        }
        Alias alias = (Alias) part;
        return new Alias(
            alias.child(),
            alias.name(),
            other(alias.exprId()),
            alias.qualifier(),
            alias.explicitMetadata(),
            alias.nonInheritableMetadataKeys());
    }

    private ExprId other(ExprId id) {
        if (backwards && !id.jvmId().equals(OWN)) return id;
        ExprId found = (ExprId) known.get(id);
        if (found == null) {
            found = backwards ? NamedExpression$.MODULE$.newExprId() : new ExprId(known.size(), OWN);
            known.put(id, found);
        }
        return found;
    }
}
