"""Objects in a bucket as a source."""
