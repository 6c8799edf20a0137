package waterclock;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;

/**
 * Logarithms, exponentials and powers of exact numbers, with PostgreSQL's digits.
 *
 * From a rough idea of how large the result is, PostgreSQL decides how many digits behind the point
 * make 16 in all. How, and that the same steps lead to the same digits, is told in
 * waterclock.sql.dialect.exponentials, which does it for constants. Whether a number is in the
 * domain is for the caller to ask.
 */
final class Exponentials {
    private static final int SIGNIFICANT = 16;
    private static final int ROUGH = 8;
    private static final int GROUP = 4;
    private static final int MOST_SCALE = 1000;
    /** What has more digits before the point has no room anywhere, and is not worth computing. */
    private static final int MOST_WHOLE = 1000;
    /** Digits that are computed besides, so that those shown are rounded right. */
    private static final int GUARD = 12;
    private static final int BESIDES = 8;
    /** A series ends sooner for a number below two to the power of minus that. */
    private static final int SMALL = 8;
    private static final double LN_10 = 2.302585092994046;
    private static final double LOG10_E = 0.434294481903252;
    private static final BigDecimal NEAR_BELOW = new BigDecimal("0.9");
    private static final BigDecimal NEAR_ABOVE = new BigDecimal("1.1");
    private static final BigDecimal TWO = BigDecimal.valueOf(2);

    private Exponentials() {}

    /** Of a positive number. */
    static BigDecimal ln(BigDecimal number) {
        int scale = scale(magnitudeOfLn(number), number.scale());
        return lnTo(number, scale + GUARD).setScale(scale, RoundingMode.HALF_UP);
    }

    /** Of a positive number, to a positive base that is not 1. */
    static BigDecimal log(BigDecimal base, BigDecimal number) {
        int magnitude = magnitudeOfLn(number);
        int magnitudeOfBase = magnitudeOfLn(base);
        int scale = scale(magnitude - magnitudeOfBase, Math.max(base.scale(), number.scale()));
        int digits = Math.max(scale + magnitude - magnitudeOfBase, 0) + GUARD;
        BigDecimal above = lnTo(number, Math.max(digits - magnitude, GUARD));
        BigDecimal below = lnTo(base, Math.max(digits - magnitudeOfBase, GUARD));
        return above.divide(below, scale, RoundingMode.HALF_UP);
    }

    static BigDecimal exp(BigDecimal number) {
        double magnitude = number.doubleValue() * LOG10_E;
        return raised(number, magnitude, scale(bounded(magnitude), number.scale()));
    }

    /** Of a base that is neither negative nor zero, unless the exponent is whole. */
    static BigDecimal power(BigDecimal base, BigDecimal exponent) {
        boolean isWhole = exponent.signum() == 0 || exponent.stripTrailingZeros().scale() <= 0;
        if (isWhole && exponent.abs().compareTo(BigDecimal.valueOf(999999999)) <= 0) {
            return wholePower(base, exponent.intValue());
        }
        if (base.signum() == 0) {
            return BigDecimal.ZERO.setScale(SIGNIFICANT);
        }
        boolean isOdd = isWhole && exponent.toBigInteger().testBit(0);
        BigDecimal found = brokenPower(base.abs(), exponent);
        return base.signum() < 0 && isOdd ? found.negate() : found;
    }

    private static BigDecimal brokenPower(BigDecimal base, BigDecimal exponent) {
        int magnitudeOfLn = magnitudeOfLn(base);
        int places = Math.max(0, ROUGH - magnitudeOfLn);
        BigDecimal rough = lnTo(base, places + GUARD).setScale(places, RoundingMode.HALF_UP);
        BigDecimal product = rough.multiply(exponent).setScale(places, RoundingMode.HALF_UP);
        double magnitude = product.doubleValue() * LOG10_E;
        int scale = scale(bounded(magnitude), Math.max(base.scale(), exponent.scale()));
        if (isNothing(magnitude, scale)) {
            return BigDecimal.ZERO.setScale(scale);
        }
        int digits = Math.max(scale + bounded(magnitude), 0) + GUARD;
        int larger = Math.max(exponent.precision() - exponent.scale(), 0);
        return raised(lnTo(base, digits + larger).multiply(exponent), magnitude, scale);
    }

    private static BigDecimal wholePower(BigDecimal base, int exponent) {
        int scale = Math.min(Math.max(SIGNIFICANT, base.scale()), MOST_SCALE);
        if (exponent == 0 || base.signum() == 0) {
            return BigDecimal.valueOf(exponent == 0 ? 1 : 0).setScale(scale);
        }
        double magnitude = exponent * log10(base.abs());
        if (isNothing(magnitude, scale)) {
            return BigDecimal.ZERO.setScale(scale);
        }
        int digits = Math.max(scale + bounded(magnitude), 0) + 2 * GUARD;
        return base.pow(exponent, new MathContext(digits)).setScale(scale, RoundingMode.HALF_UP);
    }

    private static double log10(BigDecimal number) {
        int exponent = number.precision() - number.scale() - 1;
        return StrictMath.log10(number.movePointLeft(exponent).doubleValue()) + exponent;
    }

    // --- How many digits -------------------------------------------------------------------------

    /** So many behind the point that there are 16, of which that many are before it. */
    private static int scale(int magnitude, int least) {
        return Math.min(Math.max(Math.max(SIGNIFICANT - magnitude, 0), least), MOST_SCALE);
    }

    /** How many digits a number has before the point; an error if nobody could hold it. */
    private static int bounded(double magnitude) {
        if (magnitude > MOST_WHOLE) {
            throw Numerics.tooLong();
        }
        return (int) Math.max(magnitude, -2 * MOST_SCALE);
    }

    private static boolean isNothing(double magnitude, int scale) {
        return magnitude < -scale - 1;
    }

    /** About how many digits the natural logarithm has before the point; below 0 for zeros. */
    private static int magnitudeOfLn(BigDecimal number) {
        if (number.compareTo(NEAR_BELOW) >= 0 && number.compareTo(NEAR_ABOVE) <= 0) {
            BigDecimal beside = number.subtract(BigDecimal.ONE); // the logarithm is about that
            if (beside.signum() == 0) {
                return 0;
            }
            int weight = Numerics.weight(beside);
            return weight * GROUP + (int) StrictMath.log10(groups(beside, weight));
        }
        int weight = Numerics.weight(number);
        BigDecimal moved = number.movePointLeft(GROUP * weight);
        boolean hasMore = moved.stripTrailingZeros().scale() > 0;
        int last = hasMore ? weight - 1 : weight;
        double rough = StrictMath.log(groups(number, last)) + last * GROUP * LN_10;
        return (int) StrictMath.log10(Math.abs(rough));
    }

    /** The digits up to a group, as one number. */
    private static double groups(BigDecimal number, int last) {
        return number.abs().movePointLeft(GROUP * last).toBigInteger().doubleValue();
    }

    // --- The digits themselves -------------------------------------------------------------------

    /** An exponential with so many digits behind the point. */
    private static BigDecimal raised(BigDecimal number, double magnitude, int scale) {
        if (isNothing(magnitude, scale)) {
            return BigDecimal.ZERO.setScale(scale);
        }
        int digits = Math.max(scale + bounded(magnitude), 0) + GUARD;
        return exponential(number, digits)
            .setScale(scale + BESIDES, RoundingMode.HALF_UP) // as PostgreSQL does, in two steps
            .setScale(scale, RoundingMode.HALF_UP);
    }

    /** By its series, of a number that is halved until it is small, and then squared again. */
    private static BigDecimal exponential(BigDecimal number, int digits) {
        int halvings = Math.max(Math.getExponent(number.doubleValue()) + 1 + SMALL, 0);
        MathContext with = new MathContext(digits + halvings / 3 + 3);
        BigDecimal small = number.divide(TWO.pow(halvings), with);
        BigDecimal sum = BigDecimal.ONE;
        BigDecimal term = BigDecimal.ONE;
        for (int n = 1; term.scale() - term.precision() < with.getPrecision(); n++) {
            term = term.multiply(small, with).divide(BigDecimal.valueOf(n), with);
            if (term.signum() == 0) {
                break;
            }
            sum = sum.add(term, with);
        }
        for (int n = 0; n < halvings; n++) {
            sum = sum.multiply(sum, with);
        }
        return sum;
    }

    /** A natural logarithm with so many digits behind the point, by Halley's steps from a double. */
    private static BigDecimal lnTo(BigDecimal number, int places) {
        BigDecimal found = new BigDecimal(roughLn(number), MathContext.DECIMAL64);
        MathContext with = new MathContext(places + 3);
        BigDecimal step;
        do {
            BigDecimal power = exponential(found, places + 3);
            BigDecimal above = number.subtract(power, with);
            step = above.multiply(TWO).divide(number.add(power, with), with);
            found = found.add(step);
        } while (step.signum() != 0 && 3 * (step.scale() - step.precision()) < places);
        return found;
    }

    private static double roughLn(BigDecimal number) {
        if (number.compareTo(NEAR_BELOW) >= 0 && number.compareTo(NEAR_ABOVE) <= 0) {
            return StrictMath.log1p(number.subtract(BigDecimal.ONE).doubleValue());
        }
        int exponent = number.precision() - number.scale() - 1;
        return StrictMath.log(number.movePointLeft(exponent).doubleValue()) + exponent * LN_10;
    }
}
