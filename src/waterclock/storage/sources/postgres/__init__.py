"""PostgreSQL as a source: a snapshot of tables, then every change to them by logical replication.

The way of the data: `replication` speaks the protocol, `stream` cuts what comes into transactions,
`decoding` turns these into messages with the help of `pgoutput` (the form of the changes), `tuples`
(many rows taken apart at once) and `texts` (values); `snapshot` reads what was there before.
`upstream` asks the server what it has, and `requirements` says what must be so when a source is
created. `access` has the connections and the slot, `connector` puts all this together, and
`envelope` says what it means for the contents.
"""
