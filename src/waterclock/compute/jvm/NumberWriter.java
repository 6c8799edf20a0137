package waterclock;

/** Writes the digits of one number into the places of a format; see NumberTexts. */
final class NumberWriter {
    private final NumberForm form;
    private final String digits;
    /** How many places there are more than digits. */
    private final int blanks;
    private final char sign;
    private final boolean isBracketed;
    private final boolean signIsLast;
    /** The last digit that is written even if it is a zero, or the point; -1 if all are. */
    private final int lastDigit;
    private final StringBuilder text = new StringBuilder();
    private boolean hasSign;
    private boolean hasDigit = false;
    private int place = 0;
    private int next = 0;

    NumberWriter(NumberForm form, String digits, int blanks, char sign) {
        this.form = form;
        this.digits = digits;
        this.blanks = blanks;
        this.sign = sign;
        boolean isApart = form.hasPlus || form.hasMinus;
        isBracketed = form.isBracketed && (isApart || sign == '-' || !form.isBare);
        signIsLast = form.signAt >= 0 && (form.signIsLast || form.signAt == form.pre);
        hasSign = isApart ? form.hasMinus : sign == '+' && form.isBare && form.signAt < 0;
        lastDigit = form.isBare && form.hasPoint ? lastDigit() : -1;
    }

    private int lastDigit() {
        int found = digits.indexOf('.');
        if (found < 0) {
            return -1;
        }
        for (int n = found + 1; n < digits.length(); n++) {
            found = digits.charAt(n) == '0' ? found : n;
        }
        if (form.lastZero <= blanks) {
            return found;
        }
        return Math.max(found, Math.min(digits.length() - 1, form.lastZero - blanks));
    }

    String text() {
        int places = form.pre + form.post - 1 + (hasSign || blanks > 0 ? 0 : 1);
        int last = places + (blanks > 0 ? 1 : 0) + (form.hasPoint ? 1 : 0);
        String signs = form.signs;
        for (int n = 0; n < signs.length(); n++) {
            char wanted = signs.charAt(n);
            if (wanted == '\'') {
                text.appendCodePoint(signs.codePointAt(n + 1));
                n += Character.charCount(signs.codePointAt(n + 1));
            } else if (wanted == '9' || wanted == '0' || wanted == '.') {
                if (!form.isRoman) {
                    place(wanted, last);
                }
            } else {
                beside(wanted);
            }
        }
        int end = text.indexOf("\0");
        return end < 0 ? text.toString() : text.substring(0, end);
    }

    // --- Digits ----------------------------------------------------------------------------------

    private void place(char wanted, int last) {
        hasDigit = false;
        boolean begins = place >= blanks || form.firstZero == place;
        if (!hasSign && begins && (!isLeftOut() || endsAtPoint())) {
            signBefore();
        }
        if (place < blanks) {
            fill();
        } else {
            digit(wanted);
        }
        int end = lastDigit >= 0 && lastDigit == next ? place : last;
        if (place + 1 == end) {
            signBehind();
        }
        place++;
    }

    private void fill() {
        if (form.firstZero >= 0 && form.firstZero <= place) {
            text.append('0');
            hasDigit = true;
        } else {
            blank();
        }
    }

    private void digit(char wanted) {
        char found = next < digits.length() ? digits.charAt(next) : (char) 0;
        if (found == '.') {
            text.append(found);
        } else if (lastDigit >= 0 && next > lastDigit && wanted != '0') {
            hasDigit = false;
        } else if (isLeftOut()) {
            if (form.isBare && endsAtPoint()) {
                text.append('0');
            } else {
                blank();
            }
        } else {
            text.append(found);
            hasDigit = true;
        }
        next = Math.min(next + 1, digits.length());
    }

    /** Whether this is the zero before a point, which a format of nines does not show. */
    private boolean isLeftOut() {
        boolean isZero = digits.length() > 0 && digits.charAt(0) == '0';
        return form.firstZero < 0 && next == 0 && isZero && form.post != 0;
    }

    private boolean endsAtPoint() {
        return lastDigit >= 0 && digits.charAt(lastDigit) == '.';
    }

    private void blank() {
        if (!form.isBare) {
            text.append(' ');
        }
    }

    // --- Signs -----------------------------------------------------------------------------------

    private void signBefore() {
        if (form.signAt >= 0) {
            if (signIsLast) {
                return;
            }
            text.append(sign);
        } else if (isBracketed) {
            text.append(sign == '+' ? ' ' : '<');
        } else if (sign == '-') {
            text.append('-');
        } else {
            blank();
        }
        hasSign = true;
    }

    private void signBehind() {
        if (hasSign && isBracketed) {
            text.append(sign == '+' ? ' ' : '>');
        } else if (signIsLast) {
            text.append(sign);
        }
    }

    // --- What is no digit ------------------------------------------------------------------------

    private void beside(char wanted) {
        if (wanted == ',') {
            orBlank(hasDigit, ',');
        } else if (wanted == 'L') {
            text.append(' ');
        } else if (wanted == 'M') {
            orBlank(sign == '-', '-');
        } else if (wanted == 'P') {
            orBlank(sign == '+', '+');
        } else if (wanted == 'G') {
            text.append(sign);
        } else if (wanted == 'R' || wanted == 'r') {
            roman(wanted == 'r');
        } else if (wanted == 'T' || wanted == 't') {
            ordinal(wanted == 't');
        }
    }

    private void orBlank(boolean isWritten, char wanted) {
        if (isWritten) {
            text.append(wanted);
        } else {
            blank();
        }
    }

    private void roman(boolean isLower) {
        int missing = form.isBare ? 0 : 15 - digits.length();
        text.append(NumberTexts.repeated(' ', missing));
        text.append(isLower ? digits.toLowerCase() : digits);
    }

    /** The ending of a number that counts: 1st, 2nd. */
    private void ordinal(boolean isLower) {
        if (form.isRoman || form.hasPoint || sign == '-' || digits.charAt(0) == '#') {
            return;
        }
        int length = digits.length();
        char last = digits.charAt(length - 1);
        boolean isTeen = length > 1 && digits.charAt(length - 2) == '1';
        String ending = "th";
        if (!isTeen && last >= '1' && last <= '3') {
            ending = last == '1' ? "st" : last == '2' ? "nd" : "rd";
        }
        text.append(isLower ? ending : ending.toUpperCase());
    }
}
