package waterclock;

import java.math.BigDecimal;

/**
 * A number as the sum of two doubles, of which the first is the sum rounded: about 32 digits.
 *
 * All results are good to the last few of its 106 bits, as long as nothing overflows.
 */
final class Pair {
    final double high;
    final double low;

    private Pair(double high, double low) {
        this.high = high;
        this.low = low;
    }

    static Pair of(double number) {
        return new Pair(number, 0);
    }

    static Pair of(BigDecimal number) {
        double high = number.doubleValue();
        return new Pair(high, number.subtract(new BigDecimal(high)).doubleValue());
    }

    /** Exactly, of any two. */
    static Pair sum(double one, double other) {
        double sum = one + other;
        double added = sum - one;
        return new Pair(sum, (one - (sum - added)) + (other - added));
    }

    /** Exactly, if the first is larger, or as large. */
    private static Pair joined(double large, double small) {
        double sum = large + small;
        return new Pair(sum, small - (sum - large));
    }

    static Pair product(double one, double other) {
        double product = one * other;
        return new Pair(product, Math.fma(one, other, -product));
    }

    Pair plus(Pair other) {
        Pair highs = sum(high, other.high);
        Pair lows = sum(low, other.low);
        Pair first = joined(highs.high, highs.low + lows.high);
        return joined(first.high, first.low + lows.low);
    }

    Pair plus(double other) {
        Pair highs = sum(high, other);
        return joined(highs.high, highs.low + low);
    }

    Pair minus(Pair other) {
        return plus(other.negative());
    }

    Pair times(Pair other) {
        Pair highs = product(high, other.high);
        return joined(highs.high, highs.low + (high * other.low + low * other.high));
    }

    Pair times(double other) {
        Pair highs = product(high, other);
        return joined(highs.high, highs.low + low * other);
    }

    Pair over(Pair other) {
        double first = high / other.high;
        Pair rest = minus(other.times(first));
        double second = rest.high / other.high;
        rest = rest.minus(other.times(second));
        return joined(first, second).plus(rest.high / other.high);
    }

    /** The square root of a number that is not negative. */
    Pair root() {
        if (high == 0) {
            return this;
        }
        double rough = Math.sqrt(high);
        return sum(rough, minus(product(rough, rough)).high / (2 * rough));
    }

    Pair negative() {
        return new Pair(-high, -low);
    }

    /** Times a power of two. */
    Pair scaled(int exponent) {
        return new Pair(Math.scalb(high, exponent), Math.scalb(low, exponent));
    }

    /** Times a power of two, rounded once even where doubles have fewer bits. */
    double rounded(int exponent) {
        double found = Math.scalb(high, exponent);
        if (Math.abs(found) >= 4 * Double.MIN_NORMAL || high == 0) {
            return found;
        }
        BigDecimal exact = new BigDecimal(high).add(new BigDecimal(low));
        return exact.divide(new BigDecimal(2).pow(-exponent)).doubleValue();
    }
}
