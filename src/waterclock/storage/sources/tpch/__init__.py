"""TPC-H data: its tables, rows as functions of a seed, and the load generator over them."""
