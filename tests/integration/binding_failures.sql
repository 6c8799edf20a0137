-- One query a line, which PostgreSQL fails to compute: the engine fails with the same SQLSTATE.
SELECT ('\x' || s)::bytea FROM (VALUES ('zz')) x(s)
SELECT ('\x' || s)::bytea FROM (VALUES ('1')) x(s)
SELECT ntile(0) OVER (ORDER BY k) FROM a
SELECT nth_value(v, 0) OVER (ORDER BY k) FROM a
SELECT nth_value(v, k - 1) OVER (ORDER BY k) FROM a
SELECT i * 36028797018963968::float8 FROM (VALUES ('256 microseconds'::interval)) x(i)
SELECT f::int8 FROM (VALUES (9223372036854775807::float8)) x(f)
SELECT v + 2147483647 + -2147483647 FROM a
SELECT repeat('[', 10000)::jsonb
SELECT repeat('[', n)::jsonb FROM (VALUES (10000)) x(n)
SELECT ntile(v - 1) OVER (ORDER BY v) FROM a
