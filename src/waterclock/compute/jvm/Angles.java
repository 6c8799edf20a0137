package waterclock;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;

/**
 * Functions of angles, as exact as those of Floats, and in the same way.
 *
 * What has no value is NaN; errors are for the caller to raise.
 */
public final class Angles {
    /** Half of pi with more digits than the largest double has before the point. */
    private static final BigDecimal HALF_PI = halfPi(370);
    private static final Pair QUARTER = Pair.of(HALF_PI);
    private static final Pair QUARTER_REST = Pair.of(
        HALF_PI.subtract(new BigDecimal(QUARTER.high)).subtract(new BigDecimal(QUARTER.low)));
    /** Beyond that a number is brought into the first quarter with all digits. */
    private static final double FAR = 1 << 27;
    /** Below that an angle is its own sine and tangent. */
    private static final double TINY = 0x1p-60;

    private Angles() {}

    /** By Machin: pi / 4 = 4 atan(1/5) - atan(1/239). */
    private static BigDecimal halfPi(int digits) {
        BigInteger unit = BigInteger.TEN.pow(digits + 10);
        BigInteger found = inverseTangent(unit, 5).shiftLeft(3)
            .subtract(inverseTangent(unit, 239).shiftLeft(1));
        return new BigDecimal(found, digits + 10);
    }

    private static BigInteger inverseTangent(BigInteger unit, int whole) {
        BigInteger power = unit.divide(BigInteger.valueOf(whole));
        BigInteger square = BigInteger.valueOf((long) whole * whole);
        BigInteger sum = BigInteger.ZERO;
        for (int n = 1; power.signum() != 0; n += 2) {
            BigInteger term = power.divide(BigInteger.valueOf(n));
            sum = n % 4 == 1 ? sum.add(term) : sum.subtract(term);
            power = power.divide(square);
        }
        return sum;
    }

    public static double sin(double x) {
        if (Math.abs(x) < TINY || Double.isNaN(x) || Double.isInfinite(x)) {
            return Math.abs(x) < TINY ? x : Double.NaN;
        }
        return new Angle(x).sine().high;
    }

    public static double cos(double x) {
        if (Double.isNaN(x) || Double.isInfinite(x)) {
            return Double.NaN;
        }
        return new Angle(x).cosine().high;
    }

    public static double tan(double x) {
        if (Math.abs(x) < TINY || Double.isNaN(x) || Double.isInfinite(x)) {
            return Math.abs(x) < TINY ? x : Double.NaN;
        }
        Angle angle = new Angle(x);
        return angle.sine().over(angle.cosine()).high;
    }

    /** In the steps of PostgreSQL. */
    public static double cot(double x) {
        return 1 / tan(x);
    }

    public static double asin(double x) {
        if (!(Math.abs(x) <= 1) || Math.abs(x) < TINY) {
            return Math.abs(x) > 1 ? Double.NaN : x;
        }
        return direction(Pair.of(x), besides(x)).high;
    }

    public static double acos(double x) {
        if (!(Math.abs(x) <= 1)) {
            return Double.NaN;
        }
        return x == 1 ? 0 : direction(besides(x), Pair.of(x)).high;
    }

    /** The other side of a triangle whose longest is one. */
    private static Pair besides(double side) {
        return Pair.sum(1, -side).times(Pair.sum(1, side)).root();
    }

    public static double atan(double x) {
        return atan2(x, 1);
    }

    public static double atan2(double y, double x) {
        double rough = StrictMath.atan2(y, x);
        boolean isPlain = Math.abs(y) > 0 && Math.abs(x) > 0
            && !Double.isInfinite(x) && !Double.isInfinite(y);
        if (!isPlain || Double.isNaN(rough)) {
            return rough;
        }
        int exponent = Math.getExponent(x);
        int higher = Math.getExponent(y) - exponent;
        if (higher > 60) {
            return Math.copySign(QUARTER.high, y);
        }
        if (higher < -60) {
            return x > 0 ? y / x : Math.copySign(2 * QUARTER.high, y);
        }
        int most = -Math.max(exponent, Math.getExponent(y));
        return direction(Pair.of(Math.scalb(y, most)), Pair.of(Math.scalb(x, most))).high;
    }

    /** The angle of a point: turned back by a rough one, there is little left. */
    private static Pair direction(Pair y, Pair x) {
        double rough = StrictMath.atan2(y.high, x.high);
        Angle angle = new Angle(rough);
        Pair sine = angle.sine();
        Pair cosine = angle.cosine();
        Pair above = y.times(cosine).minus(x.times(sine));
        Pair along = x.times(cosine).plus(y.times(sine));
        Pair rest = above.over(along);
        return Pair.sum(rough, rest.high).plus(rest.low);
    }

    /** A number as quarters of the circle and what is left, at most half of one. */
    private static final class Angle {
        private final int quarters;
        private final Pair rest;

        Angle(double x) {
            if (Math.abs(x) > FAR) {
                BigDecimal exact = new BigDecimal(x);
                int digits = exact.precision() - exact.scale() + 60;
                BigDecimal quarter = HALF_PI.setScale(digits, RoundingMode.HALF_EVEN);
                BigDecimal whole = exact.divide(quarter, 0, RoundingMode.HALF_EVEN);
                quarters = whole.toBigInteger().intValue() & 3;
                rest = Pair.of(exact.subtract(whole.multiply(quarter)));
                return;
            }
            double whole = Math.rint(x / QUARTER.high);
            quarters = (int) whole & 3;
            rest = whole == 0 ? Pair.of(x)
                : Pair.of(x).minus(Pair.product(whole, QUARTER.high))
                    .minus(Pair.product(whole, QUARTER.low))
                    .minus(Pair.product(whole, QUARTER_REST.high));
        }

        Pair sine() {
            Pair found = quarters % 2 == 0 ? series(1).times(rest) : series(0);
            return quarters < 2 ? found : found.negative();
        }

        Pair cosine() {
            Pair found = quarters % 2 == 0 ? series(0) : series(1).times(rest);
            return quarters == 0 || quarters == 3 ? found : found.negative();
        }

        /** Every second term of the exponential's, with signs that alternate. */
        private Pair series(int first) {
            Pair square = rest.times(rest).negative();
            Pair sum = Floats.INVERSE_FACTORIALS[Floats.TERMS - 2 + first];
            for (int n = Floats.TERMS - 4 + first; n >= 0; n -= 2) {
                sum = sum.times(square).plus(Floats.INVERSE_FACTORIALS[n]);
            }
            return sum;
        }
    }
}
