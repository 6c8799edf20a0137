"""What is kept of a password: a SCRAM-SHA-256 verifier, from which the password can not be had.

The text form is PostgreSQL's own, `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey` with base64
parts, so verifiers can be moved between the two. Whoever holds a verifier can check a proof (see
`pgwire.scram`) or a password; only the latter costs the full number of iterations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata
from dataclasses import dataclass

DEFAULT_ITERATIONS = 4096
SALT_BYTES = 16
_TEXT = re.compile(
    r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)"
)
_FORBIDDEN = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """Salt, iterations and the two keys of RFC 5802."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode()
            for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def matches(self, password: str) -> bool:
        """Whether this is the password; takes as long as making a verifier."""
        other = make_verifier(password, self.salt, self.iterations)
        return hmac.compare_digest(other.stored_key, self.stored_key)


def make_verifier(
    password: str, salt: bytes, iterations: int = DEFAULT_ITERATIONS
) -> ScramVerifier:
    """The verifier of a password. The salt must be random and the verifier's own."""
    salted = hashlib.pbkdf2_hmac("sha256", prepare(password).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return ScramVerifier(iterations, salt, hashlib.sha256(client_key).digest(), server_key)


def parse_verifier(text: str) -> ScramVerifier | None:
    """A verifier from its text; None if the text is not one, and so may be a password."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    try:
        salt, stored, server = (
            base64.b64decode(part, validate=True) for part in match.groups()[1:]
        )
    except binascii.Error:
        return None
    if len(stored) != 32 or len(server) != 32 or int(match[1]) < 1:
        return None
    return ScramVerifier(int(match[1]), salt, stored, server)


def prepare(password: str) -> str:
    """SASLprep (RFC 4013); a password that it forbids is used as it is, as PostgreSQL does."""
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(forbidden(c) for c in normal for forbidden in _FORBIDDEN):
        return password
    return normal if _directions_agree(normal) else password


def _directions_agree(text: str) -> bool:
    """RFC 3454 section 6: right-to-left text is not mixed, and begins and ends as such."""
    if not any(stringprep.in_table_d1(c) for c in text):
        return True
    if any(stringprep.in_table_d2(c) for c in text):
        return False
    return stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
