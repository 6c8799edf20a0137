package waterclock;

import java.text.Normalizer;
import java.util.ArrayList;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What is asked of texts by regular expressions, in bounded time; and forms of Unicode.
 *
 * Patterns come as Java's already (waterclock.sql.functions.regexes). Places count characters from
 * 1; where a search begins and which match is wanted have been checked to be at least 1. No
 * argument is ever null. What is raised is 54000 for a match that takes too many steps, or too much
 * of the stack, and for a replacement that makes too large a text.
 */
public final class Matches {
    private static final int MOST_KNOWN = 256;
    /** Patterns that were asked for, by their texts: a query asks for the same many times. */
    private static final Map known = new ConcurrentHashMap();

    private Matches() {}

    /** Whether there is a match. */
    public static boolean found(UTF8String text, UTF8String pattern) {
        try {
            return matcher(text.toString(), pattern).find();
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    /** What a group of each match holds, one after the other; empty where it takes no part. */
    public static ArrayData all(UTF8String text, UTF8String pattern, int group) {
        try {
            ArrayList found = new ArrayList();
            Matcher matcher = matcher(text.toString(), pattern);
            while (matcher.find()) {
                String held = matcher.group(group);
                found.add(UTF8String.fromString(held == null ? "" : held));
            }
            return new GenericArrayData(found.toArray());
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    /** The pieces between matches, which are of one character at least. */
    public static ArrayData split(UTF8String text, UTF8String pattern) {
        try {
            String whole = text.toString();
            ArrayList pieces = new ArrayList();
            Matcher matcher = matcher(whole, pattern);
            int behind = 0;
            while (matcher.find()) {
                pieces.add(UTF8String.fromString(whole.substring(behind, matcher.start())));
                behind = matcher.end();
            }
            pieces.add(UTF8String.fromString(whole.substring(behind)));
            return new GenericArrayData(pieces.toArray());
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    private static RuntimeException tooDeep() {
        return Faults.raised("54001", "matching the pattern takes too much of the stack");
    }

    /** How many matches there are from a place on. */
    public static int count(UTF8String text, UTF8String pattern, int start) {
        try {
            return counted(text, pattern, start);
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    private static int counted(UTF8String text, UTF8String pattern, int start) {
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
        try {
            return held(text, pattern, start, number, group);
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    private static UTF8String held(
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
        try {
            return placed(text, pattern, start, number, behind, group);
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    private static int placed(
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
        try {
            return remade(text, pattern, by, start, number);
        } catch (StackOverflowError error) {
            throw tooDeep();
        }
    }

    private static UTF8String remade(
            UTF8String text, UTF8String pattern, UTF8String by, int start, int number) {
        String whole = text.toString();
        Matcher matcher = matcher(whole, pattern);
        StringBuffer made = new StringBuffer();
        int seen = 0;
        for (boolean is = begin(matcher, whole, start); is; is = matcher.find()) {
            seen++;
            if (number == 0 || seen == number) {
                matcher.appendReplacement(made, by.toString());
                Budgets.requireBytes(made.length());
            }
            if (seen == number) {
                break;
            }
        }
        matcher.appendTail(made);
        return UTF8String.fromString(made.toString());
    }

    private static Matcher matcher(String text, UTF8String pattern) {
        Pattern found = (Pattern) known.get(pattern);
        if (found == null) {
            try {
                found = Pattern.compile(pattern.toString());
            } catch (PatternSyntaxException error) {
                throw Faults.raised("2201B", "invalid regular expression");
            }
            if (known.size() >= MOST_KNOWN) known.clear();
            known.put(pattern.clone(), found);
        }
        return found.matcher(new Stepped(text));
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
