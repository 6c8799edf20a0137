"""TPC-H as views that are maintained: data, queries, changes of the data, and a check of it all."""
