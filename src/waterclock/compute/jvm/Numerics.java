package waterclock;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * PostgreSQL's numeric, whose values have scales of their own: each operation as one call.
 *
 * Between operations a number is a BigDecimal, which never leaves an expression. In a column it is
 * a struct of its whole part, its fraction and its scale; see waterclock.persist.numerics. No
 * argument is ever null: Spark then gives null without asking us. What each function means, and
 * what it says where it has no value, is told in waterclock.model.exact.
 */
public final class Numerics {
    private static final int MOST_WHOLE = 38;
    private static final int MOST_SCALE = 36;
    /** No number that is asked for has more digits on either side of the point. */
    private static final int MOST_SHOWN = 2000;
    /** Digits that PostgreSQL wants a quotient and a root to show at least. */
    private static final int QUOTIENT_DIGITS = 16;
    private static final int ROOT_DIGITS = 15;
    /** What a root is computed with besides, so that rounded twice it is as rounded once. */
    private static final int ROOT_GUARD = 20;
    /** PostgreSQL keeps digits in groups of so many, and reckons in them. */
    private static final int GROUP = 4;

    private Numerics() {}

    // --- In and out ------------------------------------------------------------------------------

    public static BigDecimal ofDecimal(Decimal number) {
        return number.toJavaBigDecimal();
    }

    public static BigDecimal read(InternalRow held) {
        InternalRow parts = held.getStruct(0, 2);
        BigDecimal whole = parts.getDecimal(0, MOST_WHOLE, 0).toJavaBigDecimal();
        BigDecimal fraction = parts.getDecimal(1, MOST_SCALE, MOST_SCALE).toJavaBigDecimal();
        return whole.add(fraction).setScale(held.getShort(1), RoundingMode.DOWN);
    }

    public static BigDecimal parsed(UTF8String text) {
        BigDecimal number = new BigDecimal(text.toString());
        if (number.signum() != 0 && isTooLong(number)) {
            return null;
        }
        return number.setScale(Math.max(number.scale(), 0));
    }

    public static InternalRow held(BigDecimal number) {
        if (isTooLong(number)) {
            throw tooLong();
        }
        BigDecimal whole = number.setScale(0, RoundingMode.DOWN);
        BigDecimal fraction = number.subtract(whole).setScale(MOST_SCALE);
        Object[] parts = {
            Decimal.apply(whole, MOST_WHOLE, 0), Decimal.apply(fraction, MOST_SCALE, MOST_SCALE)
        };
        short scale = (short) Math.max(number.scale(), 0);
        return new GenericInternalRow(
            new Object[] {new GenericInternalRow(parts), Short.valueOf(scale)});
    }

    public static UTF8String text(BigDecimal number) {
        return UTF8String.fromString(number.toPlainString());
    }

    public static double toDouble(BigDecimal number) {
        return number.doubleValue();
    }

    public static float toFloat(BigDecimal number) {
        return number.floatValue();
    }

    static RuntimeException tooLong() {
        return Faults.raised(
            "22003", "a numeric has more than 38 digits, or more than 36 behind the point");
    }

    private static boolean isTooLong(BigDecimal number) {
        return number.scale() > MOST_SCALE || wholeDigits(number) > MOST_WHOLE;
    }

    /** How many digits are before the point; below zero for zeros behind it. */
    private static int wholeDigits(BigDecimal number) {
        return number.precision() - number.scale();
    }

    // --- Arithmetic ------------------------------------------------------------------------------

    public static int sign(BigDecimal number) {
        return number.signum();
    }

    public static BigDecimal absolute(BigDecimal number) {
        return number.abs();
    }

    public static BigDecimal negative(BigDecimal number) {
        return number.negate();
    }

    public static BigDecimal sum(BigDecimal left, BigDecimal right) {
        return left.add(right);
    }

    public static BigDecimal difference(BigDecimal left, BigDecimal right) {
        return left.subtract(right);
    }

    public static BigDecimal product(BigDecimal left, BigDecimal right) {
        return left.multiply(right);
    }

    public static BigDecimal quotient(BigDecimal above, BigDecimal below) {
        check(below);
        int weight = weight(above) - weight(below);
        if (first(above).compareTo(first(below)) <= 0) {
            weight--;
        }
        int scale = Math.max(above.scale(), below.scale());
        scale = Math.max(scale, QUOTIENT_DIGITS - GROUP * weight);
        return above.divide(below, scale, RoundingMode.HALF_UP);
    }

    public static BigDecimal wholeQuotient(BigDecimal above, BigDecimal below) {
        check(below);
        return above.divideToIntegralValue(below);
    }

    public static BigDecimal remainder(BigDecimal above, BigDecimal below) {
        check(below);
        return above.remainder(below).setScale(Math.max(above.scale(), below.scale()));
    }

    private static void check(BigDecimal below) {
        if (below.signum() == 0) {
            throw Faults.raised("22012", "division by zero");
        }
    }

    public static BigDecimal variance(
            BigDecimal count, BigDecimal squares, BigDecimal sum, BigDecimal divisor) {
        BigDecimal above = count.multiply(squares).subtract(sum.multiply(sum));
        BigDecimal below = count.multiply(divisor);
        if (below.signum() == 0) {
            return null;
        }
        return above.signum() > 0 ? quotient(above, below) : BigDecimal.ZERO;
    }

    public static BigDecimal root(BigDecimal number) {
        if (number.signum() < 0) {
            throw Faults.raised("2201F", "cannot take square root of a negative number");
        }
        int scale = Math.max(number.scale(), ROOT_DIGITS - GROUP / 2 * weight(number));
        return rooted(number, Math.max(scale, 0));
    }

    public static BigDecimal rootOfSameScale(BigDecimal number) {
        return rooted(number, number.scale());
    }

    private static BigDecimal rooted(BigDecimal number, int scale) {
        int digits = Math.max(wholeDigits(number), 0) / 2 + scale + ROOT_GUARD;
        BigDecimal root = number.sqrt(new MathContext(digits, RoundingMode.HALF_UP));
        return root.setScale(scale, RoundingMode.HALF_UP);
    }

    public static BigDecimal trimmed(BigDecimal number) {
        BigDecimal found = number.stripTrailingZeros();
        return found.scale() < 0 ? found.setScale(0) : found;
    }

    public static int scale(BigDecimal number) {
        return Math.max(number.scale(), 0);
    }

    public static BigDecimal divisor(BigDecimal one, BigDecimal other) {
        int scale = Math.max(one.scale(), other.scale());
        BigInteger found = one.setScale(scale).unscaledValue()
            .gcd(other.setScale(scale).unscaledValue());
        return new BigDecimal(found, scale);
    }

    public static BigDecimal multiple(BigDecimal one, BigDecimal other) {
        int scale = Math.max(one.scale(), other.scale());
        BigDecimal divisor = divisor(one, other);
        if (divisor.signum() == 0) {
            return divisor;
        }
        return one.divideToIntegralValue(divisor).multiply(other).abs().setScale(scale);
    }

    /** Which of so many equal parts a number is in, which is between two bounds, from 1 on. */
    public static int bucket(BigDecimal number, BigDecimal first, BigDecimal last, int count) {
        BigDecimal above = number.subtract(first).multiply(BigDecimal.valueOf(count));
        return above.divideToIntegralValue(last.subtract(first)).intValueExact() + 1;
    }

    // --- Logarithms and powers -------------------------------------------------------------------

    public static BigDecimal ln(BigDecimal number) {
        return Exponentials.ln(number);
    }

    public static BigDecimal log(BigDecimal base, BigDecimal number) {
        if (base.compareTo(BigDecimal.ONE) == 0) {
            throw Faults.raised("22012", "division by zero");
        }
        return Exponentials.log(base, number);
    }

    public static BigDecimal exp(BigDecimal number) {
        return Exponentials.exp(number);
    }

    public static BigDecimal power(BigDecimal base, BigDecimal exponent) {
        return Exponentials.power(base, exponent);
    }

    public static BigDecimal defined(BigDecimal base, BigDecimal exponent) {
        if (base.signum() == 0 && exponent.signum() < 0) {
            throw Faults.raised("2201F", "zero raised to a negative power is undefined");
        }
        return base;
    }

    public static BigDecimal real(BigDecimal base, BigDecimal exponent) {
        if (base.signum() < 0 && exponent.stripTrailingZeros().scale() > 0) {
            throw Faults.raised(
                "2201F",
                "a negative number raised to a non-integer power yields a complex result");
        }
        return base;
    }

    public static BigDecimal notZero(BigDecimal number) {
        if (number.signum() == 0) {
            throw Faults.raised("2201E", "cannot take logarithm of zero");
        }
        return number;
    }

    public static BigDecimal notNegative(BigDecimal number) {
        if (number.signum() < 0) {
            throw Faults.raised("2201E", "cannot take logarithm of a negative number");
        }
        return number;
    }

    // --- Rounding --------------------------------------------------------------------------------

    public static BigDecimal rounded(BigDecimal number, int scale) {
        return to(number, scale, RoundingMode.HALF_UP);
    }

    public static BigDecimal cut(BigDecimal number, int scale) {
        return to(number, scale, RoundingMode.DOWN);
    }

    /** To so many digits behind the point, or zeros before it; no more than anybody has room for. */
    private static BigDecimal to(BigDecimal number, int wanted, RoundingMode mode) {
        int scale = Math.max(Math.min(wanted, MOST_SHOWN), -MOST_SHOWN);
        return number.setScale(scale, mode).setScale(Math.max(scale, 0));
    }

    public static BigDecimal above(BigDecimal number) {
        return number.setScale(0, RoundingMode.CEILING);
    }

    public static BigDecimal below(BigDecimal number) {
        return number.setScale(0, RoundingMode.FLOOR);
    }

    /** The place of the first group of digits, counted from the point. */
    static int weight(BigDecimal number) {
        return number.signum() == 0 ? 0 : Math.floorDiv(wholeDigits(number) - 1, GROUP);
    }

    /** That group. */
    private static BigInteger first(BigDecimal number) {
        return number.abs().movePointLeft(GROUP * weight(number)).toBigInteger();
    }
}
