package waterclock;

import java.math.BigDecimal;
import java.math.RoundingMode;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Numbers written in a format, as PostgreSQL's to_char does.
 *
 * A format comes checked, and as a text of signs (waterclock.sql.functions.number_formats): 9 and 0
 * are places for digits, a point and a comma are themselves, and letters are what PostgreSQL writes
 * with one or more; what stands behind an apostrophe is written as it is. No argument is ever null,
 * and nothing is ever raised.
 *
 * The number is made a text of digits first, with as many behind the point as the format has
 * places. Then the format is gone through, and each place takes the next digit, or a blank while
 * there are more places than digits. The sign is written before the first digit, or where the
 * format says; with F no blanks are written, and no zeros at the end of a fraction.
 *
 * Where a format has a place for which there is nothing at all, not even a zero, PostgreSQL's text
 * ends, for it writes what ends a text of C's. So does this one.
 */
public final class NumberTexts {
    private static final int ROMAN_WIDTH = 15;
    private static final int MOST_ROMAN = 3999;
    private static final int[] VALUES = {
        1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1
    };
    private static final String[] LETTERS = {
        "M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"
    };

    private NumberTexts() {}

    /** An exact number; one of another kind, if its digits are all that counts. */
    public static UTF8String exact(BigDecimal number, UTF8String format) {
        NumberForm form = new NumberForm(format.toString());
        if (form.isScientific) {
            return UTF8String.fromString(blankOrMinus(scientific(number, form.post, false)));
        }
        BigDecimal shifted = number.movePointRight(form.shift);
        return UTF8String.fromString(digits(form, plain(shifted, form.post)));
    }

    /** A floating-point number, of which only the first digits are known: 6 of a single one. */
    public static UTF8String real(double number, UTF8String format, int known) {
        NumberForm form = new NumberForm(format.toString());
        boolean isFinite = !Double.isNaN(number) && !Double.isInfinite(number);
        if (form.isRoman) {
            double whole = Math.rint(number);
            return roman(whole >= 1 && whole <= MOST_ROMAN ? (int) whole : 0, format);
        }
        if (form.isScientific) {
            String text = isFinite
                ? scientific(new BigDecimal(number), form.post, true)
                : overflow(form.pre, form.post + 4);
            boolean isLost = number == 0 && 1 / number < 0;
            return UTF8String.fromString(blankOrMinus(isLost ? "-" + text : text));
        }
        double factor = Math.pow(10, form.shift);
        double shifted = known == 6 ? (float) number * (float) factor : number * factor;
        if (Double.isNaN(shifted) || Double.isInfinite(shifted)) {
            String name = Double.isNaN(shifted) ? "NaN" : "Infinity";
            form.post = name.length() >= known ? 0 : Math.min(form.post, known - name.length());
            return UTF8String.fromString(digits(form, shifted < 0 ? "-" + name : name));
        }
        BigDecimal value = new BigDecimal(shifted);
        int whole = value.abs().setScale(0, RoundingMode.HALF_EVEN).toPlainString().length();
        form.post = Math.max(0, Math.min(form.post, known - whole));
        String text = value.setScale(form.post, RoundingMode.HALF_EVEN).toPlainString();
        boolean isBelow = 1 / shifted < 0 && !text.startsWith("-");
        return UTF8String.fromString(digits(form, isBelow ? "-" + text : text));
    }

    /** A number in Roman numerals, if there are such for it. */
    public static UTF8String roman(int number, UTF8String format) {
        NumberForm form = new NumberForm(format.toString());
        StringBuilder made = new StringBuilder();
        if (number < 1 || number > MOST_ROMAN) {
            made.append(repeated('#', ROMAN_WIDTH));
        } else {
            for (int n = 0, left = number; n < VALUES.length; n++) {
                for (; left >= VALUES[n]; left -= VALUES[n]) {
                    made.append(LETTERS[n]);
                }
            }
        }
        form.becomeRoman();
        return UTF8String.fromString(new NumberWriter(form, made.toString(), 0, (char) 0).text());
    }

    // --- The digits ------------------------------------------------------------------------------

    private static String plain(BigDecimal number, int scale) {
        return number.setScale(scale, RoundingMode.HALF_UP).toPlainString();
    }

    /** A number that is written out, in the places of the format. */
    private static String digits(NumberForm form, String written) {
        char sign = written.charAt(0) == '-' ? '-' : '+';
        String text = sign == '-' ? written.substring(1) : written;
        int point = text.indexOf('.');
        int whole = point < 0 ? text.length() : point;
        int places = form.pre + form.multiplied;
        if (whole > places) {
            text = overflow(places, form.post);
        }
        form.pre = places;
        return new NumberWriter(form, text, Math.max(0, places - whole), sign).text();
    }

    private static String overflow(int whole, int fraction) {
        return repeated('#', whole) + "." + repeated('#', fraction);
    }

    /** PostgreSQL rounds exact numbers after it has chosen the exponent, C before that. */
    private static String scientific(BigDecimal number, int scale, boolean roundsFirst) {
        int exponent = number.signum() == 0 ? 0 : number.precision() - number.scale() - 1;
        RoundingMode mode = roundsFirst ? RoundingMode.HALF_EVEN : RoundingMode.HALF_UP;
        BigDecimal mantissa = number.movePointLeft(exponent).setScale(scale, mode);
        if (roundsFirst && mantissa.abs().compareTo(BigDecimal.TEN) >= 0) {
            exponent++;
            mantissa = number.movePointLeft(exponent).setScale(scale, mode);
        }
        String magnitude = Integer.toString(Math.abs(exponent));
        String padded = magnitude.length() < 2 ? "0" + magnitude : magnitude;
        return mantissa.toPlainString() + "e" + (exponent < 0 ? "-" : "+") + padded;
    }

    private static String blankOrMinus(String text) {
        return text.startsWith("-") ? text : " " + text;
    }

    static String repeated(char sign, int count) {
        StringBuilder made = new StringBuilder();
        for (int n = 0; n < count; n++) {
            made.append(sign);
        }
        return made.toString();
    }
}
