package waterclock;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** The functions that every session of Spark gets from us (spark.sql.extensions). */
public final class Extensions extends AbstractFunction1 {
    private static final DataType NUMERIC =
        DataType.fromDDL("struct<v: struct<w: decimal(38,0), f: decimal(36,36)>, s: smallint>");

    public Object apply(Object given) {
        SparkSessionExtensions extensions = (SparkSessionExtensions) given;
        add(extensions, "quotient", NUMERIC);
        return BoxedUnit.UNIT;
    }

    /** Has numeric_ and the name mean the method of that name. */
    private static void add(SparkSessionExtensions extensions, String method, DataType type) {
        String name = "numeric_" + method;
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
