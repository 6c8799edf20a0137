"""Streams of Amazon Kinesis as sources."""
