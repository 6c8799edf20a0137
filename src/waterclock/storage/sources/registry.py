"""All kinds of sources that a server can run, by the name that the catalog has for them.

To add one: write a connector (`api.Connector`) in a folder of its own, give it a `Kind`, enter it
here, and tell the statement CREATE SOURCE how its definition is made.
"""

from __future__ import annotations

from waterclock.storage.sources.api import Kinds
from waterclock.storage.sources.files import connector as files
from waterclock.storage.sources.generators import connector as load_generator
from waterclock.storage.sources.kafka import connector as kafka
from waterclock.storage.sources.kafka import transactions as kafka_transactions
from waterclock.storage.sources.kinesis import connector as kinesis
from waterclock.storage.sources.postgres import connector as postgres
from waterclock.storage.sources.pubnub import connector as pubnub
from waterclock.storage.sources.s3 import connector as s3


def all_kinds() -> Kinds:
    """Every kind there is."""
    return {
        load_generator.NAME: load_generator.KIND,
        files.NAME: files.KIND,
        kafka.NAME: kafka.KIND,
        kafka_transactions.NAME: kafka_transactions.KIND,
        kinesis.NAME: kinesis.KIND,
        postgres.NAME: postgres.KIND,
        pubnub.NAME: pubnub.KIND,
        s3.NAME: s3.KIND,
    }
