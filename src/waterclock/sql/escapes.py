r"""Escapes in strings: `E'...'` with backslashes, `U&'...'` with an escape character of choice.

Both are given the characters between the quotes and where these stand in the text. Doubled quotes
are undone here too. Octal and hexadecimal escapes stand for bytes, which must come to UTF-8 in the
end; a NUL is no character of a text.
"""

from __future__ import annotations

import re

from waterclock.sql.errors import InvalidBytes, InvalidEscape, SyntaxFault

_BACKSLASH = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})"
    r"|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<other>.))|''",
    re.DOTALL,
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_LAST_CODE_POINT = 0x10FFFF
_NOT_AN_ESCAPE = frozenset("0123456789abcdefABCDEF+'\" \t\n\r\f\v")


def with_backslashes(body: str, start: int) -> str:
    r"""The string that `E'body'` stands for, the body being at offset `start`."""
    if "\\" not in body:
        return body.replace("''", "'")
    out = bytearray()
    high: int | None = None
    done = 0
    for found in _BACKSLASH.finditer(body):
        at = start + found.start()
        code = _code_point(found, at)
        plain = body[done : found.start()]
        done = found.end()
        if high is not None and (plain or code is None or code not in _LOW):
            raise _broken_pair(plain or found[0], at - len(plain))
        out += plain.encode("utf-8", "surrogatepass")
        if code is None:
            out += _other_escape(found)
        elif code in _HIGH:
            high = code
        elif code in _LOW and high is None:
            raise _broken_pair(found[0], at)
        else:
            out += _joined(high, code).encode()
            high = None
    if high is not None:
        raise _broken_pair(body[done:] or "'", start + done)
    return _decoded(out + body[done:].encode("utf-8", "surrogatepass"))


def _code_point(found: re.Match[str], at: int) -> int | None:
    digits = found["short"] or found["long"]
    if digits is None:
        if found["other"] in ("u", "U"):
            raise InvalidEscape(
                "invalid Unicode escape",
                at + 1,
                hint="Unicode escapes must be \\uXXXX or \\UXXXXXXXX.",
            )
        return None
    code = int(digits, 16)
    if not 0 < code <= _LAST_CODE_POINT:
        raise SyntaxFault(f'invalid Unicode escape value at or near "{found[0]}"', at + 1)
    return code


def _other_escape(found: re.Match[str]) -> bytes:
    if found["octal"]:
        return bytes([int(found["octal"], 8) & 0xFF])
    if found["hex"]:
        return bytes([int(found["hex"], 16)])
    if found["other"] is None:
        return b"'"
    return _LETTERS.get(found["other"], found["other"]).encode("utf-8", "surrogatepass")


def _broken_pair(near: str, at: int) -> SyntaxFault:
    return SyntaxFault(f'invalid Unicode surrogate pair at or near "{near}"', at + 1)


def _joined(high: int | None, code: int) -> str:
    if high is None:
        return chr(code)
    return chr(0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF))


def _decoded(out: bytes | bytearray) -> str:
    try:
        text = out.decode()
    except UnicodeDecodeError as error:
        raise _invalid_bytes(bytes(out[error.start : error.end])) from None
    if "\0" in text:
        raise _invalid_bytes(b"\0")
    return text


def _invalid_bytes(broken: bytes) -> InvalidBytes:
    shown = " ".join(f"0x{byte:02x}" for byte in broken)
    return InvalidBytes(f'invalid byte sequence for encoding "UTF8": {shown}')


def is_escape_character(value: str) -> bool:
    """Whether `UESCAPE 'value'` is allowed."""
    return len(value) == 1 and value not in _NOT_AN_ESCAPE


def with_code_points(body: str, escape: str, start: int) -> str:
    r"""What `U&'body'` stands for, quotes already undone; `\XXXX` and `\+XXXXXX` are characters."""
    if escape not in body:
        return body
    short = re.escape(escape)
    pattern = re.compile(
        f"{short}(?:({short})|([0-9A-Fa-f]{{4}})|\\+([0-9A-Fa-f]{{6}})|)", re.DOTALL
    )
    out: list[str] = []
    high: int | None = None
    done = 0
    for found in pattern.finditer(body):
        plain, at = body[done : found.start()], start + found.start()
        done = found.end()
        code = _checked(found, at)
        if high is not None and (plain or code is None or code not in _LOW):
            raise SyntaxFault("invalid Unicode surrogate pair", at - len(plain) + 1)
        out.append(plain)
        if code is None:
            out.append(escape)
        elif code in _HIGH:
            high = code
        elif code in _LOW and high is None:
            raise SyntaxFault("invalid Unicode surrogate pair", at + 1)
        else:
            out.append(_joined(high, code))
            high = None
    if high is not None:
        raise SyntaxFault("invalid Unicode surrogate pair", start + done + 1)
    out.append(body[done:])
    return "".join(out)


def _checked(found: re.Match[str], at: int) -> int | None:
    """The code point; None if it is the escape character, doubled."""
    if found[1]:
        return None
    digits = found[2] or found[3]
    if digits is None:
        raise SyntaxFault(
            "invalid Unicode escape",
            at + 1,
            hint="Unicode escapes must be \\XXXX or \\+XXXXXX.",
        )
    code = int(digits, 16)
    if not 0 < code <= _LAST_CODE_POINT:
        raise SyntaxFault("invalid Unicode escape value", at + 1)
    return code
