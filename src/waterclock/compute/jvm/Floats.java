package waterclock;

import java.math.BigDecimal;
import java.math.RoundingMode;

/**
 * Functions of floating-point numbers, with the digits that C libraries give them.
 *
 * Those that a C library computes with great care, which are most, are here the exact results,
 * rounded once: a double that Java finds is made a pair of doubles by a step of Newton's, and that
 * is rounded. Logarithms to base 10 and hyperbolic functions are nowhere so exact; they are made
 * from the others in the steps that are usual. The results are the same on every machine. What has
 * no value is NaN or infinite; errors are for the caller to raise.
 */
public final class Floats {
    private static final Pair LN_2 = Pair.of(new BigDecimal(
        "0.69314718055994530941723212145817656807550013436025525412068000949339"));
    private static final double LOG10_E = 0.4342944819032518;
    /** The logarithm of two to base ten, in a part of few bits and the rest. */
    private static final double LOG10_2 = 0x1.34413509f6p-2;
    private static final double LOG10_2_REST = 3.694239077158931e-13;
    private static final Pair LN_2_REST = Pair.of(new BigDecimal(
        "0.69314718055994530941723212145817656807550013436025525412068000949339")
        .subtract(new BigDecimal(LN_2.high)).subtract(new BigDecimal(LN_2.low)));
    static final int TERMS = 30;
    static final Pair[] INVERSE_FACTORIALS = inverseFactorials();
    /** An exponential is that of so many halves of the number, squared as often. */
    private static final int HALVINGS = 9;
    private static final double MOST = 710;
    private static final double LEAST = -746;
    /** From here on the smaller of the two terms of a hyperbolic function is nothing. */
    private static final double LOPSIDED = 22;
    private static final double TIE = 1e-9;
    /** Below that many functions are the number itself. */
    private static final double TINY = 0x1p-60;
    private static final double SMALL = 0x1p-28;

    private Floats() {}

    private static Pair[] inverseFactorials() {
        Pair[] found = new Pair[TERMS];
        BigDecimal factorial = BigDecimal.ONE;
        for (int n = 0; n < TERMS; n++) {
            factorial = factorial.multiply(BigDecimal.valueOf(Math.max(n, 1)));
            found[n] = Pair.of(BigDecimal.ONE.divide(factorial, 80, RoundingMode.HALF_EVEN));
        }
        return found;
    }

    // --- Exponentials and logarithms -------------------------------------------------------------

    public static double exp(double x) {
        if (Double.isNaN(x)) {
            return x;
        }
        return exponential(Pair.of(x));
    }

    private static double exponential(Pair x) {
        if (x.high > MOST || x.high < LEAST) {
            return x.high > 0 ? Double.POSITIVE_INFINITY : 0;
        }
        int twos = twos(x);
        return settled(lessOne(rest(x, twos)).plus(1)).rounded(twos);
    }

    private static int twos(Pair x) {
        return (int) Math.rint(x.high / LN_2.high);
    }

    private static Pair rest(Pair x, int twos) {
        return x.minus(Pair.product(twos, LN_2.high)).minus(Pair.product(twos, LN_2.low))
            .minus(Pair.product(twos, LN_2_REST.high));
    }

    /** The exponential less one, of a number near zero. */
    private static Pair lessOne(Pair x) {
        Pair small = x.scaled(-HALVINGS);
        Pair sum = INVERSE_FACTORIALS[9];
        for (int n = 8; n > 0; n--) {
            sum = sum.times(small).plus(INVERSE_FACTORIALS[n]);
        }
        sum = sum.times(small);
        for (int n = 0; n < HALVINGS; n++) {
            sum = sum.scaled(1).plus(sum.times(sum));
        }
        return sum;
    }

    public static double ln(double x) {
        if (!(x > 0) || Double.isInfinite(x)) {
            return StrictMath.log(x);
        }
        return logarithm(x).high;
    }

    /** In the steps of C libraries: the powers of two apart, in two parts. */
    public static double log10(double x) {
        if (!(x >= Double.MIN_NORMAL) || Double.isInfinite(x)) {
            return StrictMath.log10(x);
        }
        int exponent = Math.getExponent(x);
        int twos = exponent < 0 ? exponent + 1 : exponent;
        double rest = ln(Math.scalb(x, -twos));
        return (twos * LOG10_2_REST + LOG10_E * rest) + twos * LOG10_2;
    }

    private static Pair logarithm(double x) {
        if (x < Double.MIN_NORMAL) {
            return logarithm(x * 0x1p54).minus(LN_2.times(54));
        }
        int twos = Math.getExponent(x);
        double mantissa = Math.scalb(x, -twos);
        if (mantissa > 1.4) {
            mantissa /= 2;
            twos++;
        }
        Pair found = ofOneMore(Pair.of(mantissa - 1));
        return twos == 0 ? found : LN_2.times(twos).plus(found);
    }

    /** The logarithm of one and so much. */
    private static Pair ofOneMore(Pair more) {
        double rough = StrictMath.log1p(more.high);
        Pair inverse = lessOne(Pair.of(-rough));
        Pair step = more.plus(inverse).plus(more.times(inverse));
        return Pair.sum(rough, step.high - step.high * step.high / 2).plus(step.low);
    }

    public static double power(double x, double y) {
        if (y == 0 || x == 1) {
            return 1;
        }
        if (x == -1 && Double.isInfinite(y)) {
            return 1;
        }
        double rough = StrictMath.pow(x, y);
        if (x == 0 || Double.isNaN(rough) || Double.isInfinite(x) || Double.isInfinite(y)) {
            return rough;
        }
        double size = y * StrictMath.log(Math.abs(x));
        if (size > MOST || size < LEAST) {
            return rough;
        }
        double found = exponential(logarithm(Math.abs(x)).times(y));
        return rough < 0 || 1 / rough < 0 ? -found : found;
    }

    /** A number that is between two doubles, as a power can be just so, as the even one of them. */
    private static Pair settled(Pair number) {
        double half = Math.ulp(number.high) / 2;
        if (Math.abs(Math.abs(number.low) / half - 1) > TIE) {
            return number;
        }
        boolean isOdd = (Double.doubleToRawLongBits(number.high) & 1) == 1;
        return Pair.of(isOdd ? number.high + Math.copySign(2 * half, number.low) : number.high);
    }

    public static double cbrt(double x) {
        double rough = StrictMath.cbrt(x);
        if (x == 0 || Double.isNaN(x) || Double.isInfinite(x)) {
            return rough;
        }
        if (Math.abs(x) < 0x1p-900) {
            return cbrt(x * 0x1p900) * 0x1p-300;
        }
        if (Math.abs(x) > 0x1p900) {
            return cbrt(x * 0x1p-900) * 0x1p300;
        }
        Pair square = Pair.product(rough, rough);
        Pair beside = Pair.of(x).minus(square.times(rough));
        return Pair.sum(rough, beside.high / (3 * square.high)).high;
    }

    // --- Hyperbolic functions --------------------------------------------------------------------

    public static double sinh(double x) {
        double size = Math.abs(x);
        if (Double.isNaN(x) || size < SMALL) {
            return x;
        }
        double half = Math.copySign(0.5, x);
        if (size >= LOPSIDED) {
            return ofLarge(size, half);
        }
        double more = StrictMath.expm1(size);
        if (size < 1) {
            return half * (2 * more - more * more / (more + 1));
        }
        return half * (more + more / (more + 1));
    }

    public static double cosh(double x) {
        double size = Math.abs(x);
        if (size >= LOPSIDED) {
            return ofLarge(size, 0.5);
        }
        if (size < LN_2.high / 2) {
            double more = StrictMath.expm1(size);
            return 1 + more * more / (2 * (1 + more));
        }
        double found = exp(size);
        return 0.5 * found + 0.5 / found;
    }

    /** Half of an exponential, which may be finite where the exponential is not. */
    private static double ofLarge(double size, double half) {
        if (size < MOST - 1) {
            return half * exp(size);
        }
        double root = exp(size / 2);
        return half * root * root;
    }

    public static double tanh(double x) {
        double size = Math.abs(x);
        if (Double.isNaN(x) || size < TINY) {
            return x;
        }
        if (size >= LOPSIDED) {
            return Math.signum(x);
        }
        double more = StrictMath.expm1(size < 1 ? -2 * size : 2 * size);
        return Math.copySign(size < 1 ? -more / (more + 2) : 1 - 2 / (more + 2), x);
    }

    public static double asinh(double x) {
        double size = Math.abs(x);
        if (Double.isNaN(x) || Double.isInfinite(x) || size < SMALL) {
            return x;
        }
        double square = x * x;
        double found;
        if (size > 1 / SMALL) {
            found = ln(size) + LN_2.high;
        } else if (size > 2) {
            found = ln(2 * size + 1 / (Math.sqrt(square + 1) + size));
        } else {
            found = StrictMath.log1p(size + square / (1 + Math.sqrt(1 + square)));
        }
        return Math.copySign(found, x);
    }

    public static double acosh(double x) {
        if (!(x >= 1)) {
            return Double.NaN;
        }
        if (x > 1 / SMALL) {
            return ln(x) + LN_2.high;
        }
        if (x > 2) {
            return ln(2 * x - 1 / (x + Math.sqrt(x * x - 1)));
        }
        double more = x - 1;
        return StrictMath.log1p(more + Math.sqrt(2 * more + more * more));
    }

    public static double atanh(double x) {
        double size = Math.abs(x);
        if (size < SMALL) {
            return x;
        }
        double twice = 2 * size;
        double more = size < 0.5 ? twice + twice * size / (1 - size) : twice / (1 - size);
        return Math.copySign(0.5 * StrictMath.log1p(more), x);
    }
}
