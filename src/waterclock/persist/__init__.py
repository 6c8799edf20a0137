"""Durable shards of update triples over two small ports: `Blob` and `Consensus`."""
