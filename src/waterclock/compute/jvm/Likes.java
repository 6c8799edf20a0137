package waterclock;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * LIKE, in time that is bounded by the length of the text times that of the pattern, in PostgreSQL's
 * way: whatever follows the escape character stands for itself.
 *
 * After a mismatch only the last % seen takes one character more: if what stands between two of them
 * matches somewhere, it may as well match where it does first. So nothing is tried again and again.
 */
public final class Likes {
    private static final int OFTEN = 1 << 16;

    private Likes() {}

    /** Whether all of the text is like the pattern. An escape that is empty escapes nothing. */
    public static boolean like(UTF8String text, UTF8String pattern, UTF8String escape) {
        byte[] t = text.getBytes();
        byte[] p = pattern.getBytes();
        byte[] e = escape.getBytes();
        int at = 0;
        int of = 0;
        int star = -1;
        int tried = 0;
        long steps = 0;
        while (at < t.length) {
            if (++steps % OFTEN == 0) {
                if (steps > Budgets.patternSteps()) {
                    throw Faults.raised("54000", Budgets.PATTERN_TOO_SLOW);
                }
                Budgets.requireWanted();
            }
            boolean escaped = begins(p, of, e);
            if (!escaped && of < p.length && p[of] == '%') {
                star = ++of;
                tried = at;
                continue;
            }
            int width = width(t, at);
            if (!escaped && of < p.length && p[of] == '_') {
                of++;
                at += width;
                continue;
            }
            int from = escaped ? of + e.length : of;
            if (escaped && from == p.length) throw dangling();
            if (same(t, at, width, p, from)) {
                of = from + width;
                at += width;
            } else if (star >= 0) {
                tried += width(t, tried);
                at = tried;
                of = star;
            } else {
                return false;
            }
        }
        while (of < p.length && p[of] == '%' && !begins(p, of, e)) of++;
        if (begins(p, of, e) && of + e.length == p.length) throw dangling();
        return of == p.length;
    }

    private static RuntimeException dangling() {
        return Faults.raised("22025", "LIKE pattern must not end with escape character");
    }

    private static boolean begins(byte[] p, int of, byte[] escape) {
        return escape.length > 0 && same(escape, 0, escape.length, p, of);
    }

    private static boolean same(byte[] a, int at, int length, byte[] b, int from) {
        if (from + length > b.length) return false;
        for (int n = 0; n < length; n++) {
            if (a[at + n] != b[from + n]) return false;
        }
        return true;
    }

    /** The bytes of the character at a place. */
    private static int width(byte[] t, int at) {
        int width = UTF8String.numBytesForFirstByte(t[at]);
        return Math.max(1, Math.min(width, t.length - at));
    }
}
