"""The Storage layer: collections behind seven commands, guarded by capabilities."""
