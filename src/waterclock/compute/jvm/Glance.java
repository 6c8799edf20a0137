package waterclock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.ExprId$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What Python asks of Catalyst's trees, and makes for them, in few calls.
 */
public final class Glance {
    private static final int MOST_TYPES = 4096;
    private final Map types = new ConcurrentHashMap();

    /** A tree, read as a whole. */
    public Glance.Reading read(Object tree) {
        Glance.Reading made = new Glance.Reading();
        made.number(tree);
        return made;
    }

    /** A plan of which nothing is read, so that it can be asked for its columns. */
    public Glance.Reading hold(Object plan) {
        Glance.Reading made = new Glance.Reading();
        made.nodes.add(plan);
        made.lines.add("null");
        return made;
    }

    /** The type that is written as this JSON. */
    public DataType type(String json) {
        DataType known = (DataType) types.get(json);
        if (known == null) {
            known = DataType$.MODULE$.fromJson(json);
            if (types.size() >= MOST_TYPES) types.clear();
            types.put(json, known);
        }
        return known;
    }

    public long newId() {
        return NamedExpression$.MODULE$.newExprId().id();
    }

    public Expression attribute(long id, String name, String type, boolean nullable) {
        return new AttributeReference(
            name, type(type), nullable, Metadata.empty(), ExprId$.MODULE$.apply(id), seq());
    }

    public Expression alias(Expression value, String name, long id) {
        return new Alias(
            value, name, ExprId$.MODULE$.apply(id), seq(), scala.Option.apply(null), seq());
    }

    public Expression literal(Object value, String type) {
        return new Literal(value, type(type));
    }

    public Expression text(String value) {
        return new Literal(UTF8String.fromString(value), StringType$.MODULE$);
    }

    public Expression nullLike(Expression value) {
        return new Literal(null, value.dataType());
    }

    public Expression cast(Expression value, String type) {
        return castTo(value, type(type));
    }

    /** Whether a cast has a result for every value. */
    public boolean isWidening(Expression cast) {
        DataType given = ((Cast) cast).child().dataType();
        return Cast$.MODULE$.canUpCast(given, cast.dataType());
    }

    /** The value as one any part of which may be null, as far as types say. */
    public Expression nullable(Expression value) {
        Expression loose = new KnownNullable(value);
        DataType given = value.dataType();
        DataType wanted = given.asNullable();
        return wanted.equals(given) ? loose : castTo(loose, wanted);
    }

    /** A struct of values under names that are written one after the other, each with its length. */
    public Expression struct(String names, Object values) {
        List parts = new ArrayList();
        scala.collection.Iterator each = ((scala.collection.Iterable) values).iterator();
        int at = 0;
        while (each.hasNext()) {
            int end = names.indexOf(':', at);
            int length = Integer.parseInt(names.substring(at, end));
            at = end + 1 + length;
            parts.add(text(names.substring(end + 1, at)));
            parts.add(each.next());
        }
        return new CreateNamedStruct(PythonUtils.toSeq(parts));
    }

    /**
     * A tree as a text, which only trees have that compute the same, unlike the one that Catalyst
     * shows: that leaves out what is long, and how errors are treated. The ids of attributes are
     * written as # with a number, and nothing else is.
     */
    public String written(Object tree) {
        StringBuilder out = new StringBuilder();
        write(tree, out);
        return out.toString();
    }

    private static void write(Object part, StringBuilder out) {
        if (part instanceof ExprId) out.append('#').append(((ExprId) part).id());
        else if (part instanceof Literal) writeLiteral((Literal) part, out);
        else if (part instanceof DataType) writeText(((DataType) part).json(), out);
        else if (part instanceof LocalRelation) writeRows((LocalRelation) part, out);
        else if (part instanceof scala.collection.Iterable) {
            scala.collection.Iterator each = ((scala.collection.Iterable) part).iterator();
            out.append('[');
            while (each.hasNext()) {
                write(each.next(), out);
                out.append(',');
            }
            out.append(']');
        } else if (part instanceof scala.Product) writeProduct((scala.Product) part, out);
        else if (part == null) out.append("null");
        else writeOther(part, out);
    }

    private static void writeProduct(scala.Product product, StringBuilder out) {
        writeText(product.getClass().getName(), out);
        out.append('(');
        for (int i = 0; i < product.productArity(); i++) {
            write(product.productElement(i), out);
            out.append(',');
        }
        if (product instanceof NamedExpression && ((Expression) product).resolved()) {
            write(((NamedExpression) product).exprId(), out);  // not among the elements
        }
        out.append(')');
    }

    private static void writeLiteral(Literal literal, StringBuilder out) {
        writeText(literal.dataType().json(), out);
        if (literal.dataType() instanceof ObjectType) write(literal.value(), out);
        else writeText(literal.sql(), out);
    }

    /** Rows that stand in a plan: of bytes, these show by themselves only where they lie. */
    private static void writeRows(LocalRelation rows, StringBuilder out) {
        writeText(rows.getClass().getName(), out);
        write(rows.output(), out);
        scala.collection.Iterator each = rows.data().iterator();
        while (each.hasNext()) writeLiteral(new Literal(each.next(), rows.schema()), out);
    }

    /** Something that is neither a tree nor made of parts that can be seen. */
    private static void writeOther(Object part, StringBuilder out) {
        String name = part.getClass().getName();
        boolean shows;
        try {
            shows = part.getClass().getMethod("toString", new Class[0]).getDeclaringClass() != Object.class;
        } catch (NoSuchMethodException never) {
            throw new IllegalStateException(never);
        }
        // A place to put a value of a row, in a variable of a lambda function, is no part of what
        // it computes; and a function can only be told by where it was written.
        if (shows && !(part instanceof AtomicReference)) writeText(part.toString(), out);
        else writeText(name.replaceFirst("\\$\\$Lambda.*", ""), out);
    }

    private static void writeText(String text, StringBuilder out) {
        out.append(text.length()).append(':').append(text.replace("#", "\\u0023"));
    }

    private static Expression castTo(Expression value, DataType target) {
        return new Cast(value, target, scala.Option.apply("UTC"), EvalMode$.MODULE$.ANSI());
    }

    public scala.collection.immutable.Seq seq() {
        return PythonUtils.toSeq(new ArrayList());
    }

    public scala.collection.immutable.Seq seq(Object a) {
        return of(new Object[] {a});
    }

    public scala.collection.immutable.Seq seq(Object a, Object b) {
        return of(new Object[] {a, b});
    }

    public scala.collection.immutable.Seq seq(Object a, Object b, Object c) {
        return of(new Object[] {a, b, c});
    }

    public scala.collection.immutable.Seq seq(Object a, Object b, Object c, Object d) {
        return of(new Object[] {a, b, c, d});
    }

    public scala.collection.immutable.Seq seq(Object a, Object b, Object c, Object d, Object e) {
        return of(new Object[] {a, b, c, d, e});
    }

    public scala.collection.immutable.Seq seq(
            Object a, Object b, Object c, Object d, Object e, Object f) {
        return of(new Object[] {a, b, c, d, e, f});
    }

    public scala.collection.immutable.Seq seq(
            Object a, Object b, Object c, Object d, Object e, Object f, Object g) {
        return of(new Object[] {a, b, c, d, e, f, g});
    }

    public scala.collection.immutable.Seq seq(
            Object a, Object b, Object c, Object d, Object e, Object f, Object g, Object h) {
        return of(new Object[] {a, b, c, d, e, f, g, h});
    }

    /** One sequence after the other. */
    public scala.collection.immutable.Seq joined(Object one, Object other) {
        List all = new ArrayList();
        addAll(all, one);
        addAll(all, other);
        return PythonUtils.toSeq(all);
    }

    private static void addAll(List all, Object elements) {
        scala.collection.Iterator each = ((scala.collection.Iterable) elements).iterator();
        while (each.hasNext()) all.add(each.next());
    }

    private static scala.collection.immutable.Seq of(Object[] elements) {
        List all = new ArrayList();
        for (int i = 0; i < elements.length; i++) all.add(elements[i]);
        return PythonUtils.toSeq(all);
    }

    /**
     * All nodes of a tree, numbered, the root first; the text describes them as JSON.
     *
     * A plan comes with the expressions of its fields. Its columns are read when they are asked
     * for, since not every plan knows them without work.
     */
    public static final class Reading {
        final List nodes = new ArrayList();
        final List lines = new ArrayList();
        private final Map numbers = new IdentityHashMap();
        private final Map types = new HashMap();
        private final List typeTexts = new ArrayList();
        private int toldLines = 0;
        private int toldTypes = 0;

        public Object node(int number) {
            return nodes.get(number);
        }

        /** What was read and not told yet. */
        public String text() {
            StringBuilder out = new StringBuilder("[[");
            for (; toldTypes < typeTexts.size(); toldTypes++) {
                comma(out);
                out.append((String) typeTexts.get(toldTypes));
            }
            out.append("],[");
            for (; toldLines < lines.size(); toldLines++) {
                comma(out);
                out.append((String) lines.get(toldLines));
            }
            return out.append("]]").toString();
        }

        /** The numbers of a plan's columns, and the text of what was read for that. */
        public String output(int number) {
            StringBuilder out = new StringBuilder("[");
            all(((LogicalPlan) nodes.get(number)).output(), Expression.class, out);
            return out.append(',').append(text()).append(']').toString();
        }

        private static void comma(StringBuilder out) {
            if (out.charAt(out.length() - 1) != '[') out.append(',');
        }

        int number(Object tree) {
            Object known = numbers.get(tree);
            if (known != null) return ((Integer) known).intValue();
            int number = nodes.size();
            numbers.put(tree, Integer.valueOf(number));
            nodes.add(tree);
            lines.add("");
            StringBuilder out = new StringBuilder("[");
            if (tree instanceof LogicalPlan) plan((LogicalPlan) tree, out);
            else expression((Expression) tree, out);
            lines.set(number, out.append("]").toString());
            return number;
        }

        private void expression(Expression tree, StringBuilder out) {
            kind(tree, out);
            all(tree.children(), Expression.class, out);
            named(tree, out);
            out.append(',').append(type(tree)).append(',');
            out.append(nullable(tree)).append(',').append(tree.deterministic());
        }

        private void plan(LogicalPlan tree, StringBuilder out) {
            kind(tree, out);
            all(tree.children(), LogicalPlan.class, out);
            out.append(",{");
            scala.Product product = (scala.Product) tree;
            boolean first = true;
            for (int i = 0; i < product.productArity(); i++) {
                Object element = product.productElement(i);
                if (!(element instanceof Expression || element instanceof scala.Option
                        || element instanceof scala.collection.Iterable)) continue;
                if (!first) out.append(',');
                first = false;
                quoted(product.productElementName(i), out);
                out.append(':');
                if (element instanceof Expression) {
                    out.append('[').append(number(element)).append(']');
                } else if (element instanceof scala.Option) {
                    all(((scala.Option) element).toList(), Expression.class, out);
                } else {
                    all(element, Expression.class, out);
                }
            }
            out.append('}');
        }

        private static void kind(Object tree, StringBuilder out) {
            String name = tree.getClass().getSimpleName();
            while (name.endsWith("$")) name = name.substring(0, name.length() - 1);
            quoted(name, out);
            out.append(',');
        }

        /** The numbers of the trees of a kind in a collection, and in those that are in it. */
        private void all(Object elements, Class kind, StringBuilder out) {
            out.append('[');
            boolean first = true;
            scala.collection.Iterator each = ((scala.collection.Iterable) elements).iterator();
            while (each.hasNext()) {
                Object element = each.next();
                boolean isTree = kind.isInstance(element);
                if (!isTree && !(element instanceof scala.collection.Iterable)) continue;
                if (!first) out.append(',');
                first = false;
                if (isTree) out.append(number(element));
                else all(element, kind, out);
            }
            out.append(']');
        }

        private static void named(Expression tree, StringBuilder out) {
            if (!(tree instanceof NamedExpression) || !tree.resolved()) {
                out.append(",null,null");
                return;
            }
            NamedExpression named = (NamedExpression) tree;
            out.append(',').append(named.exprId().id()).append(',');
            quoted(named.name(), out);
        }

        /** The number of the type; null if the expression has none, as some parts of others. */
        private String type(Expression tree) {
            DataType type;
            try {
                type = tree.dataType();
            } catch (Exception none) {
                return "null";
            } catch (AssertionError none) {
                return "null";
            }
            Object known = types.get(type);
            if (known == null) {
                known = Integer.valueOf(types.size());
                types.put(type, known);
                StringBuilder text = new StringBuilder();
                quoted(type.json(), text);
                typeTexts.add(text.toString());
            }
            return known.toString();
        }

        private static String nullable(Expression tree) {
            try {
                return tree.nullable() ? "true" : "false";
            } catch (Exception none) {
                return "null";
            } catch (AssertionError none) {
                return "null";
            }
        }

        private static void quoted(String text, StringBuilder out) {
            out.append('"');
            for (int i = 0; i < text.length(); i++) {
                char c = text.charAt(i);
                if (c == '"' || c == '\\') out.append('\\').append(c);
                else if (c < ' ') out.append(String.format("\\u%04x", new Object[] {Integer.valueOf((int) c)}));
                else out.append(c);
            }
            out.append('"');
        }
    }
}
