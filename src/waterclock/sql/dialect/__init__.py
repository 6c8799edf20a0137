"""How values, types and conversions of PostgreSQL are written in Spark SQL.

Pure text: functions take the SQL of an expression and the type that PostgreSQL says it has, and
give the SQL of another one. Every expression that is passed around is complete in itself: it can be
put anywhere an operand may stand. The engine's settings are those of `compute.spark`: ANSI mode,
UTC, decimals that never give up digits.
"""
