package waterclock;

/** What a format of NumberTexts or NumberReading asks for, as a whole. */
final class NumberForm {
    final String signs;
    /** How many places there are before the point, and behind it. */
    int pre = 0;
    int post = 0;
    /** How many are there because the number is multiplied; and how often by ten here. */
    int multiplied = 0;
    int shift = 0;
    /** From which place on blanks are zeros, or -1; and up to which zeros are kept. */
    int firstZero = -1;
    int lastZero = 0;
    /** How many places come before a sign that the format gives a place (S), or -1. */
    int signAt = -1;
    boolean signIsLast = false;
    boolean hasPoint = false;
    boolean isBare = false;
    boolean isBracketed = false;
    boolean hasPlus = false;
    boolean hasMinus = false;
    boolean isScientific = false;
    boolean isRoman = false;

    NumberForm(String signs) {
        this.signs = signs;
        boolean isMultiplied = false;
        boolean isShifted = false;
        for (int n = 0; n < signs.length(); n++) {
            char sign = signs.charAt(n);
            if (sign == '\'') {
                n++;
            } else if (sign == '9' && isMultiplied) {
                multiplied++;
            } else if (sign == '9' || sign == '0') {
                place(sign);
            } else if (sign == 'V' || sign == 'v') {
                isMultiplied = true;
                isShifted |= sign == 'V';
            } else {
                note(sign);
            }
        }
        shift = isShifted ? multiplied : 0;
    }

    private void place(char sign) {
        if (sign == '0' && firstZero < 0 && !hasPoint) {
            firstZero = pre;
        }
        if (hasPoint) {
            post++;
        } else {
            pre++;
        }
        lastZero = sign == '0' ? pre + post : lastZero;
    }

    private void note(char sign) {
        hasPoint |= sign == '.';
        isBare |= sign == 'F';
        isBracketed |= sign == 'B';
        hasPlus |= sign == 'P' || sign == 'G';
        hasMinus |= sign == 'M' || sign == 'G';
        isScientific |= sign == 'E';
        isRoman |= sign == 'R' || sign == 'r';
        if (sign == 'S') {
            signAt = pre;
            signIsLast = hasPoint;
        }
    }

    /** Nothing but letters is written then: there are no places for digits, and no sign. */
    void becomeRoman() {
        pre = 0;
        post = 0;
        multiplied = 0;
        firstZero = -1;
        signAt = -1;
        hasPoint = false;
        isBracketed = false;
        hasPlus = false;
        hasMinus = false;
    }
}
