"""The three forms of COPY data, both ways: text, csv and binary."""
