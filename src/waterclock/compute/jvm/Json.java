package waterclock;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * JSON documents read, taken apart and put together, each in one pass over their bytes.
 *
 * Methods that begin with `raw` take any JSON, whose blanks and order are kept (the type json); the
 * others take the normal form of jsonb, which JsonReader makes. Both must be valid; only `normal`
 * and the faults take any text. Nothing is ever raised, and no argument is ever null.
 */
public final class Json {
    private static final int NO_PLACE = Integer.MIN_VALUE;

    private Json() {}

    // --- Texts that may be no JSON ---------------------------------------------------------------

    /** A text as jsonb; null if it can not be one. */
    public static UTF8String normal(UTF8String text) {
        return UTF8String.fromString(JsonReader.normal(text));
    }

    /** Why a text can not be jsonb: a SQLSTATE and a message; null if it can. */
    public static UTF8String fault(UTF8String text) {
        return UTF8String.fromString(JsonReader.fault(text, true));
    }

    /** Why a text can not be json; null if it can. */
    public static UTF8String rawFault(UTF8String text) {
        return UTF8String.fromString(JsonReader.fault(text, false));
    }

    // --- Scalars ---------------------------------------------------------------------------------

    /** A text as a JSON string. */
    public static UTF8String string(UTF8String text) {
        return UTF8String.fromString(JsonReader.quoted(text.toString()));
    }

    /** The text of a JSON string. */
    public static UTF8String unescaped(UTF8String token) {
        return UTF8String.fromString(JsonReader.unescaped(token));
    }

    /** A number of JSON without an exponent; null if it is none. */
    public static UTF8String number(UTF8String token) {
        return UTF8String.fromString(JsonReader.number(token));
    }

    // --- Taking apart ----------------------------------------------------------------------------

    /** What lies directly in an array, or names and values of an object in turn; [] of a scalar. */
    public static ArrayData pieces(UTF8String document) {
        Pieces pieces = new Pieces(document.getBytes());
        ArrayList found = new ArrayList();
        while (pieces.advance()) found.add(pieces.piece());
        return new GenericArrayData(found.toArray());
    }

    /** The value of a member of an object, by its name as a JSON string in normal form. */
    public static UTF8String member(UTF8String document, UTF8String token) {
        byte[] wanted = token.getBytes();
        Pieces pieces = new Pieces(document.getBytes());
        if (!pieces.isObject()) return null;
        while (pieces.advance()) {
            boolean isIt = pieces.is(wanted);
            pieces.advance();
            if (isIt) return pieces.piece();
        }
        return null;
    }

    /** The value of the last member of that name, which is a text. */
    public static UTF8String rawMember(UTF8String document, UTF8String name) {
        Pieces pieces = new Pieces(document.getBytes());
        if (!pieces.isObject()) return null;
        UTF8String found = null;
        while (pieces.advance()) {
            boolean isIt = name.equals(unescaped(pieces.piece()));
            pieces.advance();
            if (isIt) found = pieces.piece();
        }
        return found;
    }

    /** An element by its place from 0, or from the end below 0. A scalar is an array of itself. */
    public static UTF8String element(UTF8String document, int place) {
        Pieces pieces = new Pieces(document.getBytes());
        if (pieces.isObject()) return null;
        if (!pieces.isArray()) return place == 0 || place == -1 ? document : null;
        return pieces.element(place);
    }

    /** The same, but a scalar has no elements. */
    public static UTF8String rawElement(UTF8String document, int place) {
        Pieces pieces = new Pieces(document.getBytes());
        return pieces.isArray() ? pieces.element(place) : null;
    }

    /** What lies at a path of texts. */
    public static UTF8String at(UTF8String document, ArrayData path) {
        UTF8String found = document;
        for (int n = 0; n < path.numElements() && found != null; n++) {
            if (path.isNullAt(n)) return null;
            UTF8String step = path.getUTF8String(n);
            found = isObject(found) ? member(found, string(step)) : rawElement(found, place(step));
        }
        return found;
    }

    /** The same of any JSON. At no path at all, a scalar keeps the blanks before it. */
    public static UTF8String rawAt(UTF8String document, ArrayData path) {
        UTF8String found = document;
        for (int n = 0; n < path.numElements() && found != null; n++) {
            if (path.isNullAt(n)) return null;
            UTF8String step = path.getUTF8String(n);
            found = isObject(found) ? rawMember(found, step) : rawElement(found, place(step));
        }
        if (found == null) return null;
        Pieces pieces = new Pieces(found.getBytes());
        boolean isScalar = !pieces.isObject() && !pieces.isArray();
        return pieces.bare(path.numElements() == 0 && isScalar);
    }

    private static boolean isObject(UTF8String document) {
        return new Pieces(document.getBytes()).isObject();
    }

    /** A step of a path as a place in an array. */
    private static int place(UTF8String step) {
        String digits = step.toString();
        int start = 0;
        while (start < digits.length() && isSpace(digits.charAt(start))) start++;
        for (int n = start; n < digits.length(); n++) {
            if (digits.charAt(n) > '9') return NO_PLACE;
        }
        try {
            return Integer.parseInt(digits.substring(start));
        } catch (NumberFormatException fault) {
            return NO_PLACE;
        }
    }

    private static boolean isSpace(char character) {
        return JsonReader.isBlank(character) || character == '\f' || character == 0x0B;
    }

    // --- Putting together ------------------------------------------------------------------------

    /**
     * An object of structs of a name and a value; of several with one name the last counts, and
     * those without a value are left out.
     */
    public static UTF8String object(ArrayData pairs) {
        ArrayList members = new ArrayList();
        for (int n = 0; n < pairs.numElements(); n++) {
            InternalRow pair = pairs.getStruct(n, 2);
            if (pair.isNullAt(0) || pair.isNullAt(1)) continue;
            String value = pair.getUTF8String(1).toString();
            members.add(new JsonReader.Member(pair.getUTF8String(0).toString(), value, n));
        }
        return UTF8String.fromString(JsonReader.written(members));
    }

    /** The document without members that are null, in all objects in it. */
    public static UTF8String stripped(UTF8String document) {
        StringBuilder made = new StringBuilder();
        strip(document, made);
        return UTF8String.fromString(made.toString());
    }

    private static void strip(UTF8String value, StringBuilder made) {
        Pieces pieces = new Pieces(value.getBytes());
        boolean isObject = pieces.isObject();
        if (!isObject && !pieces.isArray()) {
            made.append(value.toString());
            return;
        }
        made.append(isObject ? '{' : '[');
        boolean isFirst = true;
        while (pieces.advance()) {
            UTF8String name = pieces.piece();
            if (isObject) {
                pieces.advance();
                if (pieces.is(NULL)) continue;
            }
            made.append(isFirst ? "" : ", ");
            if (isObject) made.append(name.toString()).append(": ");
            strip(pieces.piece(), made);
            isFirst = false;
        }
        made.append(isObject ? '}' : ']');
    }

    private static final byte[] NULL = UTF8String.fromString("null").getBytes();

    /** The document in lines, each level four blanks farther in. */
    public static UTF8String pretty(UTF8String document) {
        String text = document.toString();
        StringBuilder made = new StringBuilder();
        int depth = 0;
        boolean isString = false;
        for (int n = 0; n < text.length(); n++) {
            char found = text.charAt(n);
            if (isString) {
                made.append(found);
                if (found == '\\') made.append(text.charAt(++n));
                isString = found != '"';
            } else if (found == '[' || found == '{') {
                made.append(found);
                char behind = text.charAt(n + 1);
                depth++;
                line(made, behind == ']' || behind == '}' ? depth - 1 : depth);
            } else if (found == ']' || found == '}') {
                depth--;
                char before = text.charAt(n - 1);
                if (before != '[' && before != '{') line(made, depth);
                made.append(found);
            } else if (found == ',') {
                made.append(found);
                line(made, depth);
                n++;
            } else {
                made.append(found);
                isString = found == '"';
            }
        }
        return UTF8String.fromString(made.toString());
    }

    private static void line(StringBuilder made, int depth) {
        made.append('\n');
        for (int n = 0; n < 4 * depth; n++) made.append(' ');
    }

    /** Goes through what lies directly in an array or object, by its bytes. */
    private static final class Pieces {
        private final byte[] bytes;
        private final int end;
        private int at = 0;
        private int start = 0;
        private int length = 0;
        private int behind = 0;

        Pieces(byte[] bytes) {
            this.bytes = bytes;
            int last = bytes.length;
            while (last > 0 && JsonReader.isBlank(bytes[last - 1])) last--;
            this.end = last;
            while (at < end && JsonReader.isBlank(bytes[at])) at++;
        }

        boolean isObject() {
            return at < end && bytes[at] == '{';
        }

        boolean isArray() {
            return at < end && bytes[at] == '[';
        }

        /** Without the blanks around it, or only without those behind it. */
        UTF8String bare(boolean keepsFirst) {
            int from = keepsFirst ? 0 : at;
            return UTF8String.fromBytes(bytes, from, end - from);
        }

        /** Finds the next piece, if there is one. */
        boolean advance() {
            if (behind == 0) {
                if (!isObject() && !isArray()) return false;
                behind = at;
            }
            if (behind >= end - 1) return false;
            start = behind + 1;
            while (start < end && JsonReader.isBlank(bytes[start])) start++;
            if (start >= end - 1) return false;
            int depth = 0;
            int last = start;
            for (behind = start; behind < end - 1; behind++) {
                byte found = bytes[behind];
                if (found == '"') {
                    behind = endOfString(behind);
                } else if (found == '[' || found == '{') {
                    depth++;
                } else if (found == ']' || found == '}') {
                    depth--;
                } else if (depth == 0 && (found == ',' || found == ':')) {
                    break;
                }
                if (!JsonReader.isBlank(found)) last = behind;
            }
            length = last + 1 - start;
            return true;
        }

        private int endOfString(int from) {
            int place = from + 1;
            while (bytes[place] != '"') place += bytes[place] == '\\' ? 2 : 1;
            return place;
        }

        UTF8String piece() {
            return UTF8String.fromBytes(bytes, start, length);
        }

        boolean is(byte[] wanted) {
            if (length != wanted.length) return false;
            for (int n = 0; n < length; n++) {
                if (bytes[start + n] != wanted[n]) return false;
            }
            return true;
        }

        UTF8String element(int place) {
            if (place >= 0) {
                for (int n = 0; advance(); n++) {
                    if (n == place) return piece();
                }
                return null;
            }
            if (place == NO_PLACE) return null;
            ArrayList found = new ArrayList();
            while (advance()) found.add(piece());
            return place + found.size() < 0 ? null : (UTF8String) found.get(found.size() + place);
        }
    }
}
