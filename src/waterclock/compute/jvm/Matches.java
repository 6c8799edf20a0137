package waterclock;

import java.text.Normalizer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What Spark can not ask of texts: one of many matches of a pattern, and forms of Unicode.
 *
 * Patterns come as Java's already (waterclock.sql.functions.regexes). Places count characters from
 * 1; where a search begins and which match is wanted have been checked to be at least 1. No
 * argument is ever null, and nothing is ever raised.
 */
public final class Matches {
    /** The pattern that was asked for last: a query asks for one of them many times. */
    private static volatile Pattern last = Pattern.compile("");

    private Matches() {}

    /** How many matches there are from a place on. */
    public static int count(UTF8String text, UTF8String pattern, int start) {
        Matcher matcher = matcher(text.toString(), pattern);
        int found = 0;
        for (boolean is = begin(matcher, text.toString(), start); is; is = matcher.find()) {
            found++;
        }
        return found;
    }

    /** What a group of a match holds; null if there is no such match or group. */
    public static UTF8String group(
            UTF8String text, UTF8String pattern, int start, int number, int group) {
        Matcher matcher = matcher(text.toString(), pattern);
        if (group > matcher.groupCount() || !advance(matcher, text.toString(), start, number)) {
            return null;
        }
        String found = matcher.group(group);
        return found == null ? null : UTF8String.fromString(found);
    }

    /** Where a group of a match begins, or what comes behind it begins; 0 if there is none. */
    public static int place(
            UTF8String text, UTF8String pattern, int start, int number, int behind, int group) {
        String whole = text.toString();
        Matcher matcher = matcher(whole, pattern);
        if (group > matcher.groupCount() || !advance(matcher, whole, start, number)) {
            return 0;
        }
        int at = behind == 1 ? matcher.end(group) : matcher.start(group);
        return at < 0 ? 0 : whole.codePointCount(0, at) + 1;
    }

    /** The text with one match replaced, or all from a place on if the number is 0. */
    public static UTF8String replaced(
            UTF8String text, UTF8String pattern, UTF8String by, int start, int number) {
        String whole = text.toString();
        Matcher matcher = matcher(whole, pattern);
        StringBuffer made = new StringBuffer();
        int seen = 0;
        for (boolean is = begin(matcher, whole, start); is; is = matcher.find()) {
            seen++;
            if (number == 0 || seen == number) {
                matcher.appendReplacement(made, by.toString());
            }
            if (seen == number) {
                break;
            }
        }
        matcher.appendTail(made);
        return UTF8String.fromString(made.toString());
    }

    private static Matcher matcher(String text, UTF8String pattern) {
        Pattern known = last;
        String wanted = pattern.toString();
        if (!known.pattern().equals(wanted)) {
            known = Pattern.compile(wanted);
            last = known;
        }
        return known.matcher(text);
    }

    private static boolean begin(Matcher matcher, String text, int start) {
        if (start - 1 > text.codePointCount(0, text.length())) {
            return false;
        }
        return matcher.find(text.offsetByCodePoints(0, start - 1));
    }

    private static boolean advance(Matcher matcher, String text, int start, int number) {
        boolean is = begin(matcher, text, start);
        for (int n = 1; is && n < number; n++) {
            is = matcher.find();
        }
        return is;
    }

    // --- Unicode ---------------------------------------------------------------------------------

    public static UTF8String normalized(UTF8String text, UTF8String form) {
        return UTF8String.fromString(
            Normalizer.normalize(text.toString(), Normalizer.Form.valueOf(form.toString())));
    }

    public static boolean isNormalized(UTF8String text, UTF8String form) {
        return Normalizer.isNormalized(text.toString(), Normalizer.Form.valueOf(form.toString()));
    }
}
