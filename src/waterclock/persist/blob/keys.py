"""The rule for keys, checked the same way by every implementation.

A key names an object on any store: parts of letters, digits, `.`, `_` and `-`, joined by `/`. No
part is `.` or `..`, so a key can not leave the folder it is resolved against, and none holds any
other character, so an implementation may use those for names of its own.

Two keys of which one is a folder of the other (`a` and `a/b`) follow the rule one by one, but a
file system can not hold both; callers do not make such pairs. That is not checked here.
"""

from __future__ import annotations

import re

_PART = re.compile(r"[A-Za-z0-9._-]+")


def is_part(part: str) -> bool:
    """Whether `part` may stand between two slashes of a key."""
    return _PART.fullmatch(part) is not None and part not in (".", "..")


def check_key(key: str) -> None:
    """Raise `AssertionError` unless `key` follows the rule.

    Keys are made by our own code, so a bad one is a broken invariant, not an error of the user.
    """
    if not all(is_part(part) for part in key.split("/")):
        raise AssertionError(f"{key!r} is not a key")


def folder_of(prefix: str) -> str | None:
    """The deepest folder that holds every key starting with `prefix`; `""` is the root.

    None if no key can start with `prefix`.
    """
    *parts, rest = prefix.split("/")
    if not all(is_part(part) for part in parts):
        return None
    if rest and not _PART.fullmatch(rest):
        return None
    return "/".join(parts)
