package waterclock;

import java.math.BigDecimal;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** The functions that every session of Spark gets from us (spark.sql.extensions). */
public final class Extensions extends AbstractFunction1 {
    private static final DataType NUMBER = new ObjectType(BigDecimal.class);
    private static final DataType HELD =
        DataType.fromDDL("struct<v: struct<w: decimal(38,0), f: decimal(36,36)>, s: smallint>");

    public Object apply(Object given) {
        SparkSessionExtensions extensions = (SparkSessionExtensions) given;
        add(extensions, "of_decimal", "ofDecimal", NUMBER);
        add(extensions, "read", "read", NUMBER);
        add(extensions, "parsed", "parsed", NUMBER);
        add(extensions, "held", "held", HELD);
        add(extensions, "text", "text", DataTypes.StringType);
        add(extensions, "double", "toDouble", DataTypes.DoubleType);
        add(extensions, "float", "toFloat", DataTypes.FloatType);
        add(extensions, "sign", "sign", DataTypes.IntegerType);
        add(extensions, "absolute", "absolute", NUMBER);
        add(extensions, "negative", "negative", NUMBER);
        add(extensions, "sum", "sum", NUMBER);
        add(extensions, "difference", "difference", NUMBER);
        add(extensions, "product", "product", NUMBER);
        add(extensions, "quotient", "quotient", NUMBER);
        add(extensions, "whole_quotient", "wholeQuotient", NUMBER);
        add(extensions, "remainder", "remainder", NUMBER);
        add(extensions, "variance", "variance", NUMBER);
        add(extensions, "root", "root", NUMBER);
        add(extensions, "root_of_same_scale", "rootOfSameScale", NUMBER);
        add(extensions, "power", "power", NUMBER);
        add(extensions, "rounded", "rounded", NUMBER);
        add(extensions, "cut", "cut", NUMBER);
        add(extensions, "above", "above", NUMBER);
        add(extensions, "below", "below", NUMBER);
        return BoxedUnit.UNIT;
    }

    /** Has a function of numbers mean a method of ours. */
    private static void add(
            SparkSessionExtensions extensions, String function, String method, DataType type) {
        String name = "wc_exact_" + function;
        ExpressionInfo info = new ExpressionInfo(Numerics.class.getName(), null, name, "", "");
        extensions.injectFunction(
            new Tuple3(new FunctionIdentifier(name), info, new Extensions.Call(method, type)));
    }

    /** Makes an expression of the arguments: it is null if one of them is. */
    private static final class Call extends AbstractFunction1 {
        private final String method;
        private final DataType type;

        Call(String method, DataType type) {
            this.method = method;
            this.type = type;
        }

        public Object apply(Object arguments) {
            return new StaticInvoke(
                Numerics.class, type, method, (Seq) arguments, Nil$.MODULE$,
                true, true, true, Option.empty());
        }
    }
}
