package waterclock;

/**
 * A text that counts how often it is looked at, so that no regular expression looks at it for ever.
 *
 * All that Java's matcher does that may take long looks at characters; what would not is refused
 * when a pattern is translated (waterclock.sql.functions.ambiguity). A cancelled job is noticed too.
 */
final class Stepped implements CharSequence {
    private static final int OFTEN = 1 << 16;
    private final String text;
    private final long most;
    private long steps;

    Stepped(String text) {
        this.text = text;
        this.most = Budgets.patternSteps();
    }

    public char charAt(int index) {
        if (++steps % OFTEN == 0) {
            if (steps > most) throw Faults.raised("54000", Budgets.PATTERN_TOO_SLOW);
            Budgets.requireWanted();
        }
        return text.charAt(index);
    }

    public int length() {
        return text.length();
    }

    public CharSequence subSequence(int start, int end) {
        return text.substring(start, end);
    }

    public String toString() {
        return text;
    }
}
