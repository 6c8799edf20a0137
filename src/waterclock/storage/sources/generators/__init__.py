"""Load generators: sources with nothing outside, for trying things out and for measuring."""
