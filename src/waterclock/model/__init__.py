"""The vocabulary of the database: times, frontiers, updates, partial collections, ids, schemas.

Everything here is an immutable value or a pure function. Nothing reads a clock, a file or a
network. The other layers are judged against this package: what `partial.PartialCollection`
answers is what they must answer. Import from the submodules; this module exports nothing.
"""
