package waterclock;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.Decimal;

/**
 * PostgreSQL's numeric, whose values have scales of their own: each operation as one call.
 *
 * A number is held as a struct of its whole part, its fraction and its scale; see
 * waterclock.persist.numerics. An argument is never null: Spark then gives null without asking us.
 */
public final class Numerics {
    private static final int MOST_WHOLE = 38;
    private static final int MOST_SCALE = 36;
    private static final BigDecimal BEYOND = BigDecimal.ONE.movePointRight(MOST_WHOLE);

    private Numerics() {}

    /** The number that is held so. */
    static BigDecimal number(InternalRow held) {
        InternalRow parts = held.getStruct(0, 2);
        BigDecimal whole = parts.getDecimal(0, MOST_WHOLE, 0).toJavaBigDecimal();
        BigDecimal fraction = parts.getDecimal(1, MOST_SCALE, MOST_SCALE).toJavaBigDecimal();
        return whole.add(fraction).setScale(held.getShort(1));
    }

    /** How the number is held; an error if it has too many digits. */
    static InternalRow held(BigDecimal number) {
        if (number.abs().compareTo(BEYOND) >= 0 || number.scale() > MOST_SCALE) {
            throw Faults.raised("22003", "value overflows numeric format");
        }
        BigDecimal whole = number.setScale(0, RoundingMode.DOWN);
        BigDecimal fraction = number.subtract(whole).setScale(MOST_SCALE);
        Object[] parts = {
            Decimal.apply(whole, MOST_WHOLE, 0), Decimal.apply(fraction, MOST_SCALE, MOST_SCALE)
        };
        Object[] fields = {new GenericInternalRow(parts), Short.valueOf((short) number.scale())};
        return new GenericInternalRow(fields);
    }

    /** With so many digits behind the point that PostgreSQL's groups of four show sixteen. */
    public static InternalRow quotient(InternalRow left, InternalRow right) {
        BigDecimal above = number(left);
        BigDecimal below = number(right);
        if (below.signum() == 0) {
            throw Faults.raised("22012", "division by zero");
        }
        int weight = weight(above) - weight(below);
        if (first(above).compareTo(first(below)) <= 0) {
            weight--;
        }
        int scale = Math.max(16 - 4 * weight, Math.max(above.scale(), below.scale()));
        return held(above.divide(below, Math.max(scale, 0), RoundingMode.HALF_UP));
    }

    /** The place of the first group of four digits, counted from the point. */
    private static int weight(BigDecimal number) {
        if (number.signum() == 0) {
            return 0;
        }
        return Math.floorDiv(number.precision() - number.scale() - 1, 4);
    }

    /** The first group of four digits. */
    private static BigInteger first(BigDecimal number) {
        return number.abs().movePointLeft(4 * weight(number)).toBigInteger();
    }
}
