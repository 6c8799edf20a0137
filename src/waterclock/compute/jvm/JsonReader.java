package waterclock;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads a text as JSON, once from left to right, and writes the normal form of jsonb meanwhile.
 *
 * The normal form is PostgreSQL's: members by the length of their names and then by bytes, of
 * several with one name the last, numbers with their digits and without exponents, strings with no
 * escape but those that they need. A text that is not JSON ends the reading; `fault` says why, with
 * a SQLSTATE before the message.
 *
 * Nesting is bounded, so the stack is as well, and which documents are read does not depend on the
 * thread that reads them. What is nested more deeply is only looked through, for whether it is JSON.
 */
final class JsonReader {
    static final int MOST_LEVELS = 1000;
    static final String INVALID = "22P02 invalid input syntax for type json";
    private static final String UNTRANSLATABLE = "22P05 unsupported Unicode escape sequence";
    private static final String TOO_DEEP = "54001 stack depth limit exceeded";
    private static final String OVERFLOW = "22003 value overflows numeric format";
    private static final int MOST_DIGITS = 131072;
    private static final int MOST_SCALE = 16383;

    private final String text;
    private final boolean isNormal;
    private int at = 0;
    private int depth = 0;
    private boolean isTooDeep = false;

    /** `isNormal` if the normal form is wanted: then strings and numbers must be writable in it. */
    private JsonReader(UTF8String text, boolean isNormal) {
        this.text = text.toString();
        this.isNormal = isNormal;
    }

    /** The text as jsonb; null if it can not be one. */
    static String normal(UTF8String text) {
        try {
            return new JsonReader(text, true).document();
        } catch (Stop stop) {
            return null;
        }
    }

    /** Why a text can not be jsonb, or json; null if it can. */
    static String fault(UTF8String text, boolean isNormal) {
        try {
            new JsonReader(text, isNormal).document();
            return null;
        } catch (Stop stop) {
            return stop.reason;
        }
    }

    /** The text of a JSON string that is known to be one. */
    static String unescaped(UTF8String token) {
        try {
            JsonReader reader = new JsonReader(token, false);
            reader.at = 1;
            return reader.characters(true);
        } catch (Stop stop) {
            return null;
        }
    }

    /** A number of JSON in normal form. */
    static String number(UTF8String token) {
        try {
            return new JsonReader(token, true).normalNumber();
        } catch (Stop stop) {
            return null;
        }
    }

    private static final class Stop extends Exception {
        final String reason;

        Stop(String reason) {
            super(reason, null, false, false);
            this.reason = reason;
        }
    }

    // --- Values ----------------------------------------------------------------------------------

    private String document() throws Stop {
        skipBlanks();
        String found = value();
        skipBlanks();
        if (at < text.length()) throw new Stop(INVALID);
        if (isTooDeep) throw new Stop(TOO_DEEP);
        return found;
    }

    private String value() throws Stop {
        char found = next();
        if (found != '{' && found != '[') return scalar();
        if (depth < MOST_LEVELS) return found == '{' ? object() : array();
        isTooDeep = true;
        skipNested();
        return "";
    }

    private String scalar() throws Stop {
        switch (next()) {
            case '"': return string();
            case 't': return word("true");
            case 'f': return word("false");
            case 'n': return word("null");
            default: return normalNumber();
        }
    }

    private String array() throws Stop {
        open();
        StringBuilder made = new StringBuilder("[");
        for (boolean isFirst = true; !closes(']', isFirst); isFirst = false) {
            String element = value();
            if (isNormal) made.append(isFirst ? "" : ", ").append(element);
            skipBlanks();
        }
        return made.append(']').toString();
    }

    private String object() throws Stop {
        open();
        ArrayList members = new ArrayList();
        for (boolean isFirst = true; !closes('}', isFirst); isFirst = false) {
            String name = name(isNormal);
            String value = value();
            if (isNormal) members.add(new Member(name, value, members.size()));
            skipBlanks();
        }
        return isNormal ? written(members) : "";
    }

    /** A name, and goes over the colon behind it. */
    private String name(boolean isWanted) throws Stop {
        if (next() != '"') throw new Stop(INVALID);
        at++;
        String found = characters(isWanted);
        skipBlanks();
        if (next() != ':') throw new Stop(INVALID);
        at++;
        skipBlanks();
        return found;
    }

    private void open() {
        at++;
        depth++;
        skipBlanks();
    }

    /** Goes over an array or object of any depth, which takes no stack. */
    private void skipNested() throws Stop {
        BitSet objects = new BitSet();
        int level = 0;
        do {
            char found = next();
            if (found == '{' || found == '[') {
                boolean isObject = found == '{';
                objects.set(level++, isObject);
                at++;
                skipBlanks();
                if (next() != (isObject ? '}' : ']')) {
                    if (isObject) name(false);
                    continue;
                }
            } else {
                scalar();
                skipBlanks();
            }
            level = skipEnds(objects, level);
        } while (level > 0);
    }

    /** Goes over ends, up to what comes behind the next comma; the levels that are open then. */
    private int skipEnds(BitSet objects, int level) throws Stop {
        while (level > 0) {
            boolean isObject = objects.get(level - 1);
            char found = next();
            if (found != ',' && found != (isObject ? '}' : ']')) throw new Stop(INVALID);
            at++;
            if (found != ',') level--;
            if (level > 0) skipBlanks();
            if (found == ',') {
                if (isObject) name(false);
                return level;
            }
        }
        return level;
    }

    /** Goes over the end of an array or object, or over the comma before what comes next. */
    private boolean closes(char end, boolean isFirst) throws Stop {
        char found = next();
        if (found == end) {
            at++;
            depth--;
            return true;
        }
        if (!isFirst) {
            if (found != ',') throw new Stop(INVALID);
            at++;
            skipBlanks();
        }
        return false;
    }

    private String word(String word) throws Stop {
        if (!text.startsWith(word, at)) throw new Stop(INVALID);
        at += word.length();
        return word;
    }

    private char next() throws Stop {
        if (at >= text.length()) throw new Stop(INVALID);
        return text.charAt(at);
    }

    private void skipBlanks() {
        while (at < text.length() && isBlank(text.charAt(at))) at++;
    }

    static boolean isBlank(int character) {
        return character == ' ' || character == '\n' || character == '\t' || character == '\r';
    }

    // --- Members ---------------------------------------------------------------------------------

    /** A member as it comes: which of several with one name counts is decided by its place. */
    static final class Member {
        final byte[] name;
        final String token;
        final String value;
        final int place;

        Member(String name, String value, int place) {
            this.name = UTF8String.fromString(name).getBytes();
            this.token = quoted(name);
            this.value = value;
            this.place = place;
        }
    }

    private static final class Order implements Comparator {
        public int compare(Object one, Object other) {
            Member left = (Member) one;
            Member right = (Member) other;
            int found = compareNames(left.name, right.name);
            return found != 0 ? found : left.place - right.place;
        }
    }

    private static int compareNames(byte[] left, byte[] right) {
        if (left.length != right.length) return left.length - right.length;
        for (int n = 0; n < left.length; n++) {
            if (left[n] != right[n]) return (left[n] & 0xFF) - (right[n] & 0xFF);
        }
        return 0;
    }

    /** An object of members in any order. */
    static String written(ArrayList members) {
        Object[] sorted = members.toArray();
        Arrays.sort(sorted, new Order());
        StringBuilder made = new StringBuilder("{");
        for (int n = 0; n < sorted.length; n++) {
            Member member = (Member) sorted[n];
            boolean isLast = n + 1 == sorted.length;
            if (!isLast && compareNames(member.name, ((Member) sorted[n + 1]).name) == 0) continue;
            made.append(made.length() == 1 ? "" : ", ");
            made.append(member.token).append(": ").append(member.value);
        }
        return made.append('}').toString();
    }

    // --- Strings ---------------------------------------------------------------------------------

    private String string() throws Stop {
        at++;
        String found = characters(isNormal);
        return isNormal ? quoted(found) : "";
    }

    /** What stands up to the closing quote, and goes over that; read only if it is wanted. */
    private String characters(boolean isWanted) throws Stop {
        int start = at;
        while (next() != '"' && text.charAt(at) != '\\') {
            if (text.charAt(at) < ' ') throw new Stop(INVALID);
            at++;
        }
        if (text.charAt(at) == '"') return text.substring(start, at++);
        StringBuilder made = new StringBuilder(text.substring(start, at));
        for (char found = next(); found != '"'; found = next()) {
            at++;
            if (found < ' ') throw new Stop(INVALID);
            made.append(found == '\\' ? escaped(isWanted) : found);
        }
        at++;
        if (isWanted) requirePairs(made);
        return made.toString();
    }

    private char escaped(boolean isWanted) throws Stop {
        char found = next();
        at++;
        switch (found) {
            case '"': case '\\': case '/': return found;
            case 'b': return '\b';
            case 'f': return '\f';
            case 'n': return '\n';
            case 'r': return '\r';
            case 't': return '\t';
            case 'u': return unit(isWanted);
            default: throw new Stop(INVALID);
        }
    }

    private char unit(boolean isWanted) throws Stop {
        int made = 0;
        for (int n = 0; n < 4; n++) {
            int digit = next() < 128 ? Character.digit(text.charAt(at), 16) : -1;
            if (digit < 0) throw new Stop(INVALID);
            made = made * 16 + digit;
            at++;
        }
        if (isWanted && made == 0) throw new Stop(UNTRANSLATABLE);
        return (char) made;
    }

    /** Half of a character that takes two escapes is none. */
    private static void requirePairs(StringBuilder made) throws Stop {
        for (int n = 0; n < made.length(); n++) {
            char found = made.charAt(n);
            if (!Character.isSurrogate(found)) continue;
            boolean isPair = Character.isHighSurrogate(found)
                && n + 1 < made.length() && Character.isLowSurrogate(made.charAt(n + 1));
            if (!isPair) throw new Stop(INVALID);
            n++;
        }
    }

    /** A text as a JSON string. */
    static String quoted(String text) {
        StringBuilder made = new StringBuilder(text.length() + 2).append('"');
        for (int n = 0; n < text.length(); n++) {
            char found = text.charAt(n);
            switch (found) {
                case '"': made.append("\\\""); break;
                case '\\': made.append("\\\\"); break;
                case '\b': made.append("\\b"); break;
                case '\f': made.append("\\f"); break;
                case '\n': made.append("\\n"); break;
                case '\r': made.append("\\r"); break;
                case '\t': made.append("\\t"); break;
                default:
                    if (found < ' ') made.append(String.format("\\u%04x", new Object[] {(int) found}));
                    else made.append(found);
            }
        }
        return made.append('"').toString();
    }

    // --- Numbers ---------------------------------------------------------------------------------

    private String normalNumber() throws Stop {
        int start = at;
        boolean isNegative = next() == '-';
        if (isNegative) at++;
        int whole = at;
        if (next() == '0') at++;
        else digits();
        int point = at;
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
        }
        int end = at;
        BigInteger exponent = exponent();
        if (!isNormal) return "";
        String digits = text.substring(whole, end);
        String integer = text.substring(whole, point);
        String fraction = point < end ? text.substring(point + 1, end) : "";
        if (exponent.signum() != 0) digits = moved(integer, fraction, exponent);
        else if (integer.length() > MOST_DIGITS || fraction.length() > MOST_SCALE) {
            throw new Stop(OVERFLOW);
        }
        return isNegative && !isZero(digits) ? "-" + digits : digits;
    }

    private void digits() throws Stop {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') at++;
        if (at == start) throw new Stop(INVALID);
    }

    private BigInteger exponent() throws Stop {
        if (at >= text.length() || (text.charAt(at) != 'e' && text.charAt(at) != 'E')) {
            return BigInteger.ZERO;
        }
        at++;
        boolean isSigned = next() == '-' || text.charAt(at) == '+';
        boolean isNegative = text.charAt(at) == '-';
        if (isSigned) at++;
        int start = at;
        digits();
        if (at - start > 12) return BigInteger.valueOf(isNegative ? -MOST_DIGITS * 2L : MOST_DIGITS * 2L);
        BigInteger found = new BigInteger(text.substring(start, at));
        return isNegative ? found.negate() : found;
    }

    /** The digits with the point moved as an exponent says. */
    private static String moved(String integer, String fraction, BigInteger exponent) throws Stop {
        String digits = integer + fraction;
        long place = integer.length() + exponent.longValue();
        long scale = Math.max(0, digits.length() - place);
        if (scale > MOST_SCALE || (place > MOST_DIGITS && !isZero(digits))) throw new Stop(OVERFLOW);
        StringBuilder made = new StringBuilder();
        if (place <= 0) {
            made.append("0.").append(zeros(-place)).append(digits);
        } else if (place >= digits.length()) {
            made.append(digits).append(isZero(digits) ? "" : zeros(place - digits.length()));
        } else {
            made.append(digits.substring(0, (int) place)).append('.');
            made.append(digits.substring((int) place));
        }
        int leading = 0;
        while (leading + 1 < made.length() && made.charAt(leading) == '0'
                && made.charAt(leading + 1) != '.') {
            leading++;
        }
        return made.substring(leading);
    }

    private static String zeros(long count) {
        char[] made = new char[(int) count];
        Arrays.fill(made, '0');
        return new String(made);
    }

    private static boolean isZero(String digits) {
        for (int n = 0; n < digits.length(); n++) {
            char found = digits.charAt(n);
            if (found != '0' && found != '.') return false;
        }
        return true;
    }
}
