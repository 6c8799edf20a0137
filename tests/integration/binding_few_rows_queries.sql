-- Queries over small tables that no view can be made of, or whose views answer in other last digits.
SELECT count(*), now() IS NOT NULL AS n FROM a GROUP BY CUBE(n)
SELECT stddev(x), variance(x), regr_slope(x, y), corr(x, y) FROM f
select ~1 & 0
select ~ 1 + 1, ~1 | 6, - 2 ^ 2, @ -5 + 3
SELECT width_bucket(2::numeric, array[1,2.0]::numeric[]), width_bucket(2.0, array[1,2,3]::float8[]), width_bucket(5, array[1,5,9])
SELECT ('\x' || s)::bytea from (values ('12'), (' 12 34 ')) x(s)
select interval '1.234' second(2), interval '1:02.678' minute to second(1), interval '1.2' second(0)
select * from a t, lateral (select t.k as v from b u) l join b u on l.v=u.k
select * from a t, lateral (select t.k as v) l left join b u on l.v=u.k
select * from a t, b s, lateral (select t.k + s.k as v) l left join b u on l.v=u.k
select x.k, l.g from b x, generate_series(1, x.k) l(g) join a on a.k = l.g
select * from a t full join lateral generate_series(1, 2) g on t.k = g
select * from a t right join lateral (select 1 as o) g on t.k = g.o
select k, count(k) over (range between current row and current row), sum(v) over (range between unbounded preceding and current row) from a
select k, v, count(k) over (order by k, v rows between current row and 9223372036854775807 following), sum(v) over (order by k, v rows between 9223372036854775807 preceding and 1 following) from a
select k, v, count(k) over (order by k, v rows between 9223372036854775807 following and unbounded following) from a
select k, v, count(*) over (order by k, v rows between 1 preceding and 2 preceding), sum(v) over (order by k rows between 2 following and 1 following), first_value(v) over (order by k, v rows between 2 following and 1 following) from a
select k, v, count(*) over (order by k groups between 1 preceding and 2 preceding) from a
select k, v, count(*) over (order by k range between 2 following and 1 following), sum(v) over (order by k range between 1 preceding and 2 preceding) from a
select ntile(null) over (order by k) from a
select ntile(0) over (order by k) from e
select ntile(2) over (order by k, v), k, v from a
select k, v, lag(v, k) over (order by v, k), lead(v, k) over (order by v, k), lag(v, k, 9) over (order by v, k), lead(v, v - 1, -1) over (partition by k order by v) from a
select k, v, lag(v, null) over (order by v, k), lead(v, 1, k) over (order by v, k) from a
select k, v, nth_value(v, k) over (order by v, k rows between unbounded preceding and unbounded following), nth_value(k, v) over (order by v, k) from a
select nth_value(v, null) over (order by k) from a
SELECT * FROM a WHERE k IN (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1)
SELECT * FROM a WHERE k IN (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k desc LIMIT 1)
SELECT * FROM a WHERE k NOT IN (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1)
SELECT * FROM a WHERE EXISTS (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k OFFSET 1)
SELECT * FROM a WHERE EXISTS (SELECT b.k FROM b WHERE b.v=a.v LIMIT 0)
SELECT k, v, k IN (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1) FROM a
SELECT k, v, v > ALL (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1) FROM a
SELECT k, v, (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1), (SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k OFFSET 1) FROM a
SELECT k, v, ARRAY(SELECT b.k FROM b WHERE b.v=a.v ORDER BY b.k LIMIT 1) FROM a
select c, count(*) from c group by c
select avg(null::int) over (order by k groups between 1 preceding and current row) from a
select * from a t1 left join lateral (select count(distinct 1) v from b t2 where t1.k = 1) l on true
select a.k, x.k, x.*, b.v from a join b using (k) as x
select k, v, count(*) from a group by grouping sets ((k, (k, v)), k)
SELECT regexp_replace('foobarrbazz','(.)\1','X'), regexp_replace('aabb','(a)(b)?','[\2]'), regexp_instr('foobarrbazz', '(.)\1'), regexp_replace('xayybz', 'y(.)', '\1')
