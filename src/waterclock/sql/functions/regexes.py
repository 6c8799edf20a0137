r"""PostgreSQL's patterns, rewritten for Java's regular expressions and Spark's LIKE.

PostgreSQL's advanced regular expressions and Java's share most of their syntax. What differs is
rewritten (`[[:alpha:]]`, `\y`, `\m`) or refused (`***`, `\Y`, collating elements).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.sql.functions.ambiguity import require_bounded
from waterclock.sql.functions.registry import Invalid, Refused

_WORD = "\\p{IsAlphabetic}\\p{IsDigit}_"
_CLASSES = {
    "alpha": "\\p{IsAlphabetic}",
    "digit": "0-9",
    "alnum": "\\p{IsAlphabetic}\\p{IsDigit}",
    "upper": "\\p{IsUppercase}",
    "lower": "\\p{IsLowercase}",
    "space": "\\s",
    "blank": " \\t",
    "punct": "\\p{Punct}",
    "cntrl": "\\p{Cntrl}",
    "xdigit": "0-9A-Fa-f",
    "print": "\\p{Print}",
    "graph": "\\p{Graph}",
    "word": _WORD,
}
_SAME_ESCAPES = frozenset("dDsSwWnrtfAZ123456789.^$*+?()[]{}|\\-/\"'#&%@!~`,:;<>= _")
_WORD_EDGES = {
    "y": f"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))",
    "m": f"(?<![{_WORD}])(?=[{_WORD}])",
    "M": f"(?<=[{_WORD}])(?![{_WORD}])",
}
_CLASS_ESCAPES = {"d": "0-9", "w": _WORD, "s": "\\s"}
"""Letters are those of Unicode, digits are not."""
_SINGLES = re.compile(r"\\.|\[\^?\]?(?:\[:[a-z]+:\]|\\.|[^\]])*\]", re.DOTALL)
"""What stands for one character: something escaped, or a class in brackets."""
_EDGES = "yYmMAZ<>123456789"
"""Escaped, they stand for no character, or for what a group has matched."""
_REPEATS = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})"
_DANGLING = re.compile(rf"(?:\A|[(|^$]|{_REPEATS}\??+){_REPEATS}")
_NESTING = {"(": 1, ")": -1}
_DIGITS = tuple("0123456789")
_MOST_REPEATS = 255
_SIMPLE_LIKE = re.compile(r"[^_%\\]*|[^_%\\]+%|%[^_%\\]+%?|[^_%\\]+%[^_%\\]+", re.DOTALL)
_QUANTIFIER = re.compile(r"\{[0-9]+(,[0-9]*)?\}")


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression for Java, and what has to be known of the one it came from."""

    text: str
    groups: int
    source: str
    is_global: bool = False

    def require_unambiguous(self) -> None:
        """`Refused` if the engines may prefer different matches."""
        for alternatives in _alternatives(self.source):
            firsts = [each[:1] for each in alternatives]
            if len(set(firsts)) < len(firsts) or any(
                f in ("", ".", "[", "(", "\\") for f in firsts
            ):
                raise Refused(
                    "a regular expression with alternatives that may begin the same",
                    "Write the common beginning in front of the alternatives.",
                )

    def require_groups_that_match(self) -> None:
        """`Refused` if a group may be left out of a match: it would be null, not empty."""
        if re.search(r"\)[?*]|\)\{0|\|", self.source) and self.groups:
            raise Refused("a regular expression with groups that may not take part in a match")

    def require_characters(self) -> None:
        """`Refused` if it may match between two characters."""
        if _may_match_nothing(self.source):
            raise Refused("splitting by a regular expression that may match nothing")


def _may_match_nothing(source: str) -> bool:
    """Whether there may be a match without any character."""
    if re.search(r"\(\?<?[=!]", source):
        return True
    # What is one character becomes an x; what is none, or may be, is left out.
    plain = _SINGLES.sub(lambda m: "" if m[0][0] == "\\" and m[0][1] in _EDGES else "x", source)
    try:
        return re.fullmatch(plain, "") is not None
    except re.error:
        return True


def _alternatives(source: str) -> list[list[str]]:
    """The alternatives of each group that has some, as they were written."""
    stack: list[list[str]] = [[""]]
    found: list[list[str]] = []
    at, in_class = 0, False
    while at < len(source):
        piece = source[at : at + 2] if source[at] == "\\" else source[at]
        at += len(piece)
        if in_class:
            in_class = piece != "]"
            stack[-1][-1] += piece
        elif piece == "[":
            in_class = True
            stack[-1][-1] += piece
        elif piece == "(":
            stack[-1][-1] += piece
            stack.append([""])
            if source.startswith("?:", at):
                at += 2
        elif piece == ")" and len(stack) > 1:
            found.append(stack.pop())
        elif piece == "|":
            stack[-1].append("")
        else:
            stack[-1][-1] += piece
    found += stack
    return [each for each in found if len(each) > 1]


def java_regex(source: str, flags: str = "") -> Regex:
    """The regular expression for Java; `Invalid` or `Refused`."""
    if source.startswith("***"):
        raise Refused("a regular expression that begins with ***")
    inline, lines = "", False
    for flag in flags:
        match flag:
            case "i":
                inline += "iu"
            case "g" | "c":
                pass
            case "n" | "m":
                if "[^" in source:
                    raise Refused(f'the flag "{flag}" of a regular expression with [^ in it')
                lines = True
            case "s":
                pass
            case _:
                raise Invalid("22023", f'invalid regular expression option: "{flag}"')
    # A dot matches a line break in PostgreSQL, unless it is told not to.
    if not lines:
        inline += "s"
    _check_quantifiers(source)
    body, groups = _body(source, lines=lines)
    prefix = f"(?{inline}d)"  # only a line feed ends a line
    require_bounded(body)
    return Regex(prefix + body, groups, source, "g" in flags)


def _check_quantifiers(source: str) -> None:
    """`Invalid` if a quantifier has nothing before it, or another quantifier."""
    plain = re.sub(r"\(\?[:=!]", "(", _SINGLES.sub("x", source))
    if _DANGLING.search(plain):
        raise Invalid("2201B", "invalid regular expression: quantifier operand invalid")


def _body(source: str, *, lines: bool) -> tuple[str, int]:
    edges = {"^": "(?:\\A|(?<=\\n))", "$": "(?=\\n|\\z)"} if lines else {"$": "\\z"}
    out: list[str] = []
    groups, depth, at = 0, 0, 0
    while at < len(source):
        character = source[at]
        if character == "\\":
            piece, at = _escape(source, at)
            out.append(piece)
        elif character == "[":
            piece, at = _bracket(source, at)
            out.append(piece)
        elif character == "{":
            piece, at = _braces(source, at)
            out.append(piece)
        else:
            if character == "(":
                groups += 0 if source.startswith("(?", at) else 1
                _refuse_group(source, at)
            depth += _NESTING.get(character, 0)
            if depth < 0:
                break
            out.append(edges.get(character, character))
            at += 1
    if depth:
        raise Invalid("2201B", "invalid regular expression: parentheses () not balanced")
    return "".join(out), groups


def _braces(source: str, at: int) -> tuple[str, int]:
    """How often something comes, if a digit follows; else just a brace."""
    if source[at + 1 : at + 2] not in _DIGITS:
        return "\\{", at + 1
    found = _QUANTIFIER.match(source, at)
    if found is None and re.fullmatch(r"[0-9,]*", source[at + 1 :]):
        raise Invalid("2201B", "invalid regular expression: braces {} not balanced")
    counts = [] if found is None else [int(each) for each in re.findall("[0-9]+", found[0])]
    if found is None or counts != sorted(counts) or counts[-1] > _MOST_REPEATS:
        raise Invalid("2201B", "invalid regular expression: invalid repetition count(s)")
    return found[0], found.end()


def _refuse_group(source: str, at: int) -> None:
    if source.startswith("(?", at) and source[at + 2 : at + 3] not in (":", "=", "!"):
        raise Refused("a regular expression with options inside")


def _escape(source: str, at: int, *, in_brackets: bool = False) -> tuple[str, int]:
    following = source[at + 1 : at + 2]
    if not following:
        raise Invalid("2201B", "invalid regular expression: invalid escape \\ sequence")
    if following in _WORD_EDGES:
        if in_brackets:
            raise Refused(f"\\{following} in brackets")
        return _WORD_EDGES[following], at + 2
    if following.lower() in _CLASS_ESCAPES and following.isalpha():
        negated = following.isupper()
        inside = _CLASS_ESCAPES[following.lower()]
        if in_brackets and negated:
            raise Refused(f"\\{following} in brackets")
        return inside if in_brackets else f"[{'^' if negated else ''}{inside}]", at + 2
    if following not in _SAME_ESCAPES:
        raise Refused(f"\\{following} in a regular expression")
    if following == "Z":
        return "\\z", at + 2
    return f"\\{following}", at + 2


def _bracket(source: str, at: int) -> tuple[str, int]:
    """A bracket expression."""
    out, at = ["["], at + 1
    if source.startswith("^", at):
        out.append("^")
        at += 1
    first = True
    while at < len(source):
        if source[at] == "]" and not first:
            return "".join([*out, "]"]), at + 1
        first = False
        if source.startswith("[:", at):
            end = source.find(":]", at)
            name = source[at + 2 : end]
            if end < 0 or name not in _CLASSES:
                raise Invalid("2201B", "invalid regular expression: invalid character class")
            out.append(_CLASSES[name])
            at = end + 2
        elif source.startswith(("[.", "[="), at):
            raise Refused("a collating element in a regular expression")
        elif source[at] == "\\":
            piece, at = _escape(source, at, in_brackets=True)
            out.append(piece)
        else:
            out.append("\\" + source[at] if source[at] in "[]&" else source[at])
            at += 1
    raise Invalid("2201B", "invalid regular expression: brackets [] not balanced")


def java_replacement(text: str, groups: int) -> str:
    r"""A replacement: `\1` is a group, or nothing if there is no such; `\&` the whole match."""
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        following = text[at + 1 : at + 2]
        if character == "\\" and following.isdigit() and following != "0":
            if int(following) <= groups:
                out.append(f"${int(following)}")
            at += 2
        elif character == "\\" and following == "&":
            out.append("$0")
            at += 2
        elif character == "\\":
            out.append("\\\\")
            at += 2 if following == "\\" else 1
        else:
            out.append("\\$" if character == "$" else character)
            at += 1
    return "".join(out)


def like_pattern(pattern: str, escape: str) -> str:
    """A LIKE pattern as Spark takes it: a backslash escapes, and only what needs it."""
    if len(escape) > 1:
        raise Invalid("22025", "invalid escape string")
    out: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if escape and character == escape:
            at += 1
            if at == len(pattern):
                raise Invalid("22025", "LIKE pattern must not end with escape character")
            character = pattern[at]
            out.append(f"\\{character}" if character in "%_\\" else character)
        else:
            out.append("\\\\" if character == "\\" else character)
        at += 1
    return "".join(out)


def is_simple_like(pattern: str) -> bool:
    """Whether Spark compares beginnings, ends or parts instead of matching the pattern."""
    return _SIMPLE_LIKE.fullmatch(pattern) is not None


def similar_regex(pattern: str, escape: str) -> str:
    """A SIMILAR TO pattern as a regular expression of Java's."""
    body = _similar_body(pattern, escape)
    require_bounded(body)
    return f"(?s)\\A(?:{body})\\z"


def similar_parts(pattern: str, escape: str) -> tuple[str, bool]:
    """A pattern with two separators, with what is between them as a group; or one without any.

    Of what comes first as little as possible is matched, of the rest as much as possible.
    """
    if len(escape) > 1:
        raise Invalid("22019", "invalid escape string")
    parts = pattern.split(f'{escape}"') if escape else [pattern]
    if len(parts) == 1:
        return similar_regex(pattern, escape), False
    if len(parts) > 3:
        what = "SQL regular expression may not contain more than two escape-double-quote separators"
        raise Invalid("2200C", what)
    if len(parts) == 2 or re.search(r"[|*+?{}()\[\]]", pattern) or f"{escape}{escape}" in pattern:
        raise Refused("SUBSTRING by such a pattern", "Use a regular expression.")
    first, second, third = (_similar_body(part, escape) for part in parts)
    lazy = first.replace(".*", ".*?")
    require_bounded(f"{lazy}({second}){third}")
    return f"(?s)\\A{lazy}({second}){third}\\z", True


def _similar_body(pattern: str, escape: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if escape and character == escape and at + 1 < len(pattern):
            at += 1
            if pattern[at] == '"':
                raise Refused('escape and " in a SIMILAR TO pattern')
            out.append(re.escape(pattern[at]))
        elif character == "[":
            piece, end = _bracket(pattern, at)
            out.append(piece)
            at = end - 1
        else:
            out.append(_similar_piece(character))
        at += 1
    return "".join(out)


def _similar_piece(character: str) -> str:
    match character:
        case "%":
            return ".*"
        case "_":
            return "."
        case "(":
            return "(?:"
        case ")" | "|" | "*" | "+" | "?" | "{" | "}" | ",":
            return character
        case _:
            return re.escape(character)
