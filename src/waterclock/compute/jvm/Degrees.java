package waterclock;

/**
 * Functions of angles in degrees, in PostgreSQL's steps.
 *
 * It measures by the values at 30, 45 and 60 degrees, so that those come out exactly. What has no
 * value is NaN; errors are for the caller to raise.
 */
public final class Degrees {
    private static final double RADIANS = 0.0174532925199432957692;
    private static final double SIN_30 = Angles.sin(30 * RADIANS);
    private static final double ONE_LESS_COS_60 = 1 - Angles.cos(60 * RADIANS);
    private static final double ASIN_HALF = Angles.asin(0.5);
    private static final double ACOS_HALF = Angles.acos(0.5);
    private static final double ATAN_ONE = Angles.atan(1);
    private static final double TAN_45 = firstSine(45) / firstCosine(45);
    private static final double COT_45 = firstCosine(45) / firstSine(45);

    private Degrees() {}

    public static double sind(double x) {
        double angle = turned(x);
        double size = Math.abs(angle);
        return Math.copySign(1, angle) * firstSine(size > 90 ? 180 - size : size);
    }

    public static double cosd(double x) {
        double angle = Math.abs(x % 360);
        angle = angle > 180 ? 360 - angle : angle;
        return angle > 90 ? -firstCosine(180 - angle) : firstCosine(angle);
    }

    public static double tand(double x) {
        double angle = folded(x);
        double size = Math.abs(angle);
        double found = Math.copySign(1, angle) * (firstSine(size) / firstCosine(size) / TAN_45);
        return found == 0 ? 0 : found;
    }

    public static double cotd(double x) {
        double angle = folded(x);
        double size = Math.abs(angle);
        double found = Math.copySign(1, angle) * (firstCosine(size) / firstSine(size) / COT_45);
        return found == 0 ? 0 : found;
    }

    /** The same angle, from -180 to 180; zero keeps its sign. */
    private static double turned(double x) {
        double angle = x % 360;
        double size = Math.abs(angle);
        return size > 180 ? Math.copySign(360 - size, -angle) : angle;
    }

    /** The angle from -90 to 90 that has the same tangent. */
    private static double folded(double x) {
        double angle = turned(x);
        double size = Math.abs(angle);
        return size > 90 ? Math.copySign(180 - size, -angle) : angle;
    }

    private static double firstSine(double angle) {
        return angle <= 30 ? smallSine(angle) : smallCosine(90 - angle);
    }

    private static double firstCosine(double angle) {
        return angle <= 60 ? smallCosine(angle) : smallSine(90 - angle);
    }

    private static double smallSine(double angle) {
        return Angles.sin(angle * RADIANS) / SIN_30 / 2;
    }

    private static double smallCosine(double angle) {
        return 1 - (1 - Angles.cos(angle * RADIANS)) / ONE_LESS_COS_60 / 2;
    }

    public static double asind(double x) {
        return x >= 0 ? firstInverseSine(x) : -firstInverseSine(-x);
    }

    public static double acosd(double x) {
        if (!(x >= 0)) {
            return 90 + firstInverseSine(-x);
        }
        return x <= 0.5
            ? 90 - Angles.asin(x) / ASIN_HALF * 30 : Angles.acos(x) / ACOS_HALF * 60;
    }

    private static double firstInverseSine(double x) {
        return x <= 0.5
            ? Angles.asin(x) / ASIN_HALF * 30 : 90 - Angles.acos(x) / ACOS_HALF * 60;
    }

    public static double atand(double x) {
        return Angles.atan(x) / ATAN_ONE * 45;
    }

    public static double atan2d(double y, double x) {
        return Angles.atan2(y, x) / ATAN_ONE * 45;
    }
}
