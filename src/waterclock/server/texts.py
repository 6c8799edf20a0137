"""The text forms of values, which the PostgreSQL protocol knows, for whoever else needs them."""

from __future__ import annotations

import pyarrow as pa

from waterclock.model.manner import Manner
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_of


class PgTexts:
    """Implements `http.values.Texts`."""

    def encode(self, column: pa.Array, declared: PgType, manner: Manner) -> pa.Array:
        return encode_text(column, declared, zone_of(manner))

    def decode(self, text: str | None, declared: PgType, manner: Manner) -> pa.Scalar:
        if text is None:
            return pa.scalar(None, arrow_type(column_type(declared)))
        return decode_text(pa.array([text], pa.string()), declared, zone_of(manner))[0]
