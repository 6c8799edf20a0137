"""Results written to files outside, by COPY ... TO 'location'."""
