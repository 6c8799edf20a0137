package waterclock;

import org.apache.spark.unsafe.types.UTF8String;

/** Functions that make large texts of small ones: how large is known before the text is made. */
public final class Texts {
    private Texts() {}

    /** Whether a value may have so many bytes; raises 54000 if not. */
    public static boolean room(long bytes) {
        Budgets.requireBytes(bytes);
        return true;
    }

    public static UTF8String repeat(UTF8String text, int times) {
        Budgets.requireBytes((double) text.numBytes() * Math.max(times, 0));
        return text.repeat(times);
    }

    /** So many characters of the text, and before them what it lacks of those. */
    public static UTF8String padLeft(UTF8String text, int length, UTF8String filling) {
        requirePadded(text, length, filling);
        return text.lpad(length, filling);
    }

    /** So many characters of the text, and behind them what it lacks of those. */
    public static UTF8String padRight(UTF8String text, int length, UTF8String filling) {
        requirePadded(text, length, filling);
        return text.rpad(length, filling);
    }

    private static void requirePadded(UTF8String text, int length, UTF8String filling) {
        long lacking = Math.max(0, (long) length - text.numChars());
        double each = Math.max(1, filling.numBytes()) / (double) Math.max(1, filling.numChars());
        Budgets.requireBytes(text.numBytes() + lacking * each);
    }

    /** The text with every occurrence replaced. */
    public static UTF8String replace(UTF8String text, UTF8String search, UTF8String by) {
        if (search.numBytes() == 0) return text;
        if (by.numBytes() > search.numBytes()) {
            double growth = (double) by.numBytes() / search.numBytes();
            if (text.numBytes() * growth > Budgets.valueBytes()) {
                Budgets.requireBytes(replacedBytes(text, search, by));
            }
        }
        return text.replace(search, by);
    }

    private static double replacedBytes(UTF8String text, UTF8String search, UTF8String by) {
        byte[] whole = text.getBytes();
        byte[] part = search.getBytes();
        double bytes = whole.length;
        for (int at = 0; at + part.length <= whole.length; ) {
            int same = 0;
            while (same < part.length && whole[at + same] == part[same]) same++;
            if (same == part.length) {
                bytes += by.numBytes() - part.length;
                at += part.length;
            } else {
                at++;
            }
        }
        return bytes;
    }
}
