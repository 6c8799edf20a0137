package waterclock;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * Numbers read from texts in a format, as PostgreSQL's to_number does.
 *
 * The format is gone through (NumberForm), and each of its places takes the next byte of the text:
 * a digit, or the point, or else nothing. A sign is looked for before the first digit and behind
 * the last one. What the format writes as it is skips as many characters of the text, whatever they
 * are. So almost any text is read as something, and the rest of it does not matter.
 *
 * What is given is the number as a text: a sign or a blank, digits, and a point. It may lack
 * digits, and then is no number, which is for the caller to say. No argument is ever null, and
 * nothing is ever raised.
 */
public final class NumberReading {
    private static final String DATA = "0123456789.,+-";

    private final byte[] text;
    private final NumberForm form;
    private final StringBuilder digits = new StringBuilder();
    private char sign = ' ';
    private int at = 0;
    private boolean hasPoint = false;
    private int fraction = 0;

    private NumberReading(byte[] text, NumberForm form) {
        this.text = text;
        this.form = form;
    }

    public static UTF8String read(UTF8String text, UTF8String format) {
        NumberForm form = new NumberForm(format.toString());
        NumberReading reading = new NumberReading(text.getBytes(), form);
        reading.goThrough();
        return UTF8String.fromString(reading.found());
    }

    private String found() {
        int length = digits.length();
        boolean endsWithPoint = length > 0 && digits.charAt(length - 1) == '.';
        return sign + (endsWithPoint ? digits.substring(0, length - 1) : digits.toString());
    }

    private void goThrough() {
        String signs = form.signs;
        for (int n = 0; n < signs.length() && !isOver(); n++) {
            char wanted = signs.charAt(n);
            if (wanted == '\'') {
                n += Character.charCount(signs.codePointAt(n + 1));
                at += width();
            } else if (wanted == '9' || wanted == '0' || wanted == '.') {
                place(wanted);
                at++;
            } else if (wanted == ',') {
                at += form.isBare || text[at] != ',' ? 0 : 1;
            } else if (wanted == 'L') {
                skip(1);
            } else if (wanted == 'M' || wanted == 'P' || wanted == 'G') {
                signApart(wanted);
            } else if (wanted == 'T' || wanted == 't') {
                skip(form.hasPoint ? 0 : 2);
            }
        }
    }

    private boolean isOver() {
        return at >= text.length;
    }

    private boolean isDigit(int place) {
        return text[place] >= '0' && text[place] <= '9';
    }

    /** Goes over characters that can not be part of a number. */
    private void skip(int count) {
        for (int n = 0; n < count && !isOver() && DATA.indexOf(text[at]) < 0; n++) {
            at += width();
        }
    }

    /** How many bytes the character here has. */
    private int width() {
        int first = text[at] & 0xFF;
        return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    }

    // --- Places ----------------------------------------------------------------------------------

    private void place(char wanted) {
        if (text[at] == ' ') {
            at++;
        }
        if (!isOver() && sign == ' ' && wanted != '.' && !hasDigits()) {
            signBefore();
        }
        if (isOver()) {
            return;
        }
        boolean isRead = false;
        if (isDigit(at)) {
            if (hasPoint && fraction == form.post) {
                return;
            }
            fraction += hasPoint ? 1 : 0;
            isRead = true;
        } else if (form.hasPoint && !hasPoint && text[at] == '.') {
            hasPoint = true;
            isRead = true;
        }
        if (isRead) {
            digits.append((char) text[at]);
        }
        if (sign == ' ' && hasDigits()) {
            signBehind(isRead);
        }
    }

    private boolean hasDigits() {
        return digits.length() > (hasPoint ? 1 : 0);
    }

    private void signBefore() {
        boolean isPlaced = form.signAt >= 0 && !form.signIsLast;
        boolean isOpened = !isPlaced && form.isBracketed && text[at] == '<';
        if (text[at] == '-' || isOpened) {
            sign = '-';
            at++;
        } else if (text[at] == '+') {
            sign = '+';
            at++;
        }
    }

    private void signBehind(boolean isRead) {
        boolean isPlaced = form.signAt >= 0;
        if (isPlaced && isRead && at + 1 < text.length && isSign(at + 1)) {
            at++;
            sign = (char) text[at];
        } else if (!isRead && !isPlaced && (form.hasPlus || form.hasMinus) && isSign(at)) {
            sign = (char) text[at];
        }
    }

    private void signApart(char wanted) {
        boolean isFitting = wanted != (text[at] == '-' ? 'P' : 'M');
        if (isSign(at) && isFitting) {
            sign = (char) text[at];
            at++;
        } else {
            skip(1);
        }
    }

    private boolean isSign(int place) {
        return text[place] == '-' || text[place] == '+';
    }
}
