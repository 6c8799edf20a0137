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

/** What every session of Spark gets from us (spark.sql.extensions): functions, a parser, a rule. */
public final class Extensions extends AbstractFunction1 {
    private static final DataType NUMBER = new ObjectType(BigDecimal.class);
    private static final DataType HELD =
        DataType.fromDDL("struct<v: struct<w: decimal(38,0), f: decimal(36,36)>, s: smallint>");

    private static final DataType TEXTS =
        DataTypes.createArrayType(DataTypes.StringType, false);

    /** Functions of numbers that give numbers, and are called here as they are in Java. */
    private static final String[] EXACT = {
        "read", "parsed", "absolute", "negative", "sum", "difference", "product", "quotient",
        "remainder", "variance", "root", "power", "rounded", "cut", "above", "below", "ln", "log",
        "exp", "defined", "real", "trimmed", "divisor", "multiple"
    };
    private static final String[] FLOATS = {
        "exp", "ln", "log10", "power", "cbrt", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"
    };
    private static final String[] ANGLES = {
        "sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2"
    };
    private static final String[] DEGREES = {
        "sind", "cosd", "tand", "cotd", "asind", "acosd", "atand", "atan2d"
    };

    /** Functions of JSON that give a text, as they are called in SQL and in Java. */
    private static final String[][] JSON_TEXTS = {
        {"normal", "normal"}, {"fault", "fault"}, {"raw_fault", "rawFault"},
        {"string", "string"}, {"unescaped", "unescaped"}, {"number", "number"},
        {"member", "member"}, {"element", "element"}, {"at", "at"},
        {"raw_member", "rawMember"}, {"raw_element", "rawElement"}, {"raw_at", "rawAt"},
        {"object", "object"}, {"stripped", "stripped"}, {"pretty", "pretty"}
    };

    public Object apply(Object given) {
        SparkSessionExtensions extensions = (SparkSessionExtensions) given;
        for (int n = 0; n < EXACT.length; n++) {
            exact(extensions, EXACT[n], EXACT[n], NUMBER);
        }
        exact(extensions, "of_decimal", "ofDecimal", NUMBER);
        exact(extensions, "held", "held", HELD);
        exact(extensions, "text", "text", DataTypes.StringType);
        exact(extensions, "double", "toDouble", DataTypes.DoubleType);
        exact(extensions, "float", "toFloat", DataTypes.FloatType);
        exact(extensions, "sign", "sign", DataTypes.IntegerType);
        exact(extensions, "scale", "scale", DataTypes.IntegerType);
        exact(extensions, "bucket", "bucket", DataTypes.IntegerType);
        exact(extensions, "whole_quotient", "wholeQuotient", NUMBER);
        exact(extensions, "root_of_same_scale", "rootOfSameScale", NUMBER);
        exact(extensions, "not_zero", "notZero", NUMBER);
        exact(extensions, "not_negative", "notNegative", NUMBER);
        floats(extensions, Floats.class, FLOATS);
        floats(extensions, Angles.class, ANGLES);
        floats(extensions, Degrees.class, DEGREES);
        add(extensions, Documents.class, "json_contains", "contains", DataTypes.BooleanType);
        add(extensions, Json.class, "json_pieces", "pieces", TEXTS);
        for (int n = 0; n < JSON_TEXTS.length; n++) {
            String[] names = JSON_TEXTS[n];
            add(extensions, Json.class, "json_" + names[0], names[1], DataTypes.StringType);
        }
        add(extensions, Texts.class, "room", "room", DataTypes.BooleanType);
        add(extensions, Texts.class, "repeat", "repeat", DataTypes.StringType);
        add(extensions, Texts.class, "lpad", "padLeft", DataTypes.StringType);
        add(extensions, Texts.class, "rpad", "padRight", DataTypes.StringType);
        add(extensions, Texts.class, "replace", "replace", DataTypes.StringType);
        add(extensions, Likes.class, "like", "like", DataTypes.BooleanType);
        add(extensions, Matches.class, "matches", "found", DataTypes.BooleanType);
        add(extensions, Matches.class, "match_all", "all", TEXTS);
        add(extensions, Matches.class, "match_split", "split", TEXTS);
        add(extensions, Matches.class, "match_count", "count", DataTypes.IntegerType);
        add(extensions, Matches.class, "match_group", "group", DataTypes.StringType);
        add(extensions, Matches.class, "match_place", "place", DataTypes.IntegerType);
        add(extensions, Matches.class, "match_replaced", "replaced", DataTypes.StringType);
        add(extensions, Matches.class, "normalized", "normalized", DataTypes.StringType);
        add(extensions, Matches.class, "is_normalized", "isNormalized", DataTypes.BooleanType);
        add(extensions, NumberTexts.class, "number_text", "exact", DataTypes.StringType);
        add(extensions, NumberTexts.class, "real_text", "real", DataTypes.StringType);
        add(extensions, NumberTexts.class, "roman_text", "roman", DataTypes.StringType);
        add(extensions, NumberReading.class, "number_read", "read", DataTypes.StringType);
        extensions.injectParser(new Reading.Maker());
        extensions.injectPostHocResolutionRule(new EmptySets.Maker());
        return BoxedUnit.UNIT;
    }

    private static void exact(
            SparkSessionExtensions extensions, String function, String method, DataType type) {
        add(extensions, Numerics.class, "exact_" + function, method, type);
    }

    private static void floats(
            SparkSessionExtensions extensions, Class owner, String[] methods) {
        for (int n = 0; n < methods.length; n++) {
            add(extensions, owner, "float_" + methods[n], methods[n], DataTypes.DoubleType);
        }
    }

    /** Has a function of SQL's mean a method of ours. */
    private static void add(
            SparkSessionExtensions extensions,
            Class owner,
            String function,
            String method,
            DataType type) {
        String name = "wc_" + function;
        ExpressionInfo info = new ExpressionInfo(owner.getName(), null, name, "", "");
        extensions.injectFunction(
            new Tuple3(
                new FunctionIdentifier(name), info, new Extensions.Call(owner, method, type)));
    }

    /** Makes an expression of the arguments: it is null if one of them is. */
    private static final class Call extends AbstractFunction1 {
        private final Class owner;
        private final String method;
        private final DataType type;

        Call(Class owner, String method, DataType type) {
            this.owner = owner;
            this.method = method;
            this.type = type;
        }

        public Object apply(Object arguments) {
            return new StaticInvoke(
                owner, type, method, (Seq) arguments, Nil$.MODULE$,
                true, true, true, Option.empty());
        }
    }
}
