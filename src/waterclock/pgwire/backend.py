"""What the server says: one function for each message, returning its bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from waterclock.adapter.api import ColumnDescription, Format, TransactionStatus
from waterclock.model.pg_types import PgType, UnknownType, element_of, type_info

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
AUTHENTICATION_OK = b"R\0\0\0\x08\0\0\0\0"
TLS_ACCEPTED, TLS_REFUSED = b"S", b"N"

_READY = {status: b"Z\0\0\0\5" + status.value.encode() for status in TransactionStatus}


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def ready_for_query(status: TransactionStatus) -> bytes:
    return _READY[status]


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    names = b"".join(name.encode() + b"\0" for name in mechanisms)
    return message(b"R", struct.pack(">i", 10) + names + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    return message(b"R", struct.pack(">i", 11) + data)


def authentication_sasl_final(data: bytes) -> bytes:
    return message(b"R", struct.pack(">i", 12) + data)


def negotiate_version(minor: int, refused: Sequence[str]) -> bytes:
    """The newest version that is understood is 3.`minor`; these options are not."""
    names = b"".join(name.encode() + b"\0" for name in refused)
    return message(b"v", struct.pack(">ii", 3 << 16 | minor, len(refused)) + names)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def backend_key_data(process_id: int, secret: bytes) -> bytes:
    return message(b"K", struct.pack(">i", process_id) + secret)


def error_response(fields: Mapping[str, str]) -> bytes:
    return message(b"E", _fields(fields))


def notice_response(fields: Mapping[str, str]) -> bytes:
    return message(b"N", _fields(fields))


def command_complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def parameter_description(types: Iterable[PgType]) -> bytes:
    oids = [declared.oid for declared in types]
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def row_description(columns: Sequence[ColumnDescription], formats: Sequence[Format]) -> bytes:
    parts = [struct.pack(">H", len(columns))]
    for column, form in zip(columns, formats, strict=True):
        parts.append(_text(column.name))
        parts.append(
            struct.pack(
                ">IhIhih",
                column.table_oid,
                column.column_number,
                column.type.oid,
                type_length(column.type.oid),
                column.type.modifier,
                form,
            )
        )
    return message(b"T", b"".join(parts))


def copy_in_response(form: Format, columns: int) -> bytes:
    return message(b"G", _copy_formats(form, columns))


def copy_out_response(form: Format, columns: int) -> bytes:
    return message(b"H", _copy_formats(form, columns))


def type_length(oid: int) -> int:
    """Bytes of a value of the type, -1 if that varies or nobody knows the type."""
    if element_of(oid) is not None:
        return -1
    try:
        return type_info(oid).length
    except UnknownType:
        return _SYSTEM_LENGTHS.get(oid, -1)


_SYSTEM_LENGTHS = {
    **dict.fromkeys((24, 2202, 2203, 2204, 2205, 2206, 4089, 4096, 4191, 3734, 3769), 4),
    **{28: 4, 29: 4, 2278: 4, 27: 6},
}
"""Of types that only the system's relations have: regclass and the like, xid, cid, void, tid."""


def _copy_formats(form: Format, columns: int) -> bytes:
    return struct.pack(f">bH{columns}h", form, columns, *[form] * columns)


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(letter.encode() + _text(value) for letter, value in fields.items()) + b"\0"


def _text(value: str) -> bytes:
    """A string of the protocol, which ends at its first zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"
