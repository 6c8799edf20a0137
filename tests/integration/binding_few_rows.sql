-- Queries over small tables with duplicates, nulls, both zeros and no rows at all. One query a line,
-- answered alike by PostgreSQL, by the engine, and by a view that is maintained while the tables fill,
-- shrink, become empty and fill again.
SELECT k, count(*) FROM e GROUP BY ROLLUP(k)
SELECT k, count(*), sum(k), grouping(k), array_agg(k), count(distinct k) FROM e GROUP BY CUBE(k)
SELECT k, count(*), sum(v), min(v), avg(v), grouping(k), count(distinct v) FROM a GROUP BY ROLLUP(k)
SELECT k, v, count(*), sum(v) FROM a GROUP BY CUBE(k, v)
SELECT k, v, count(*), sum(v) FILTER (WHERE v > 1) FROM a GROUP BY GROUPING SETS ((k),(v),(),())
SELECT count(*) FROM a GROUP BY GROUPING SETS ((), ())
SELECT count(*), max(v) FROM e, a GROUP BY GROUPING SETS ((), (), (e.k))
SELECT k FROM e GROUP BY ROLLUP(k)
SELECT k, count(*) c FROM a GROUP BY ROLLUP(k) HAVING count(*) > 1
SELECT k, count(*) c FROM a GROUP BY ROLLUP(k) HAVING grouping(k) = 1
SELECT k, rank() over (order by count(*)), count(*) c FROM a GROUP BY ROLLUP(k)
SELECT DISTINCT count(*) c FROM a GROUP BY ROLLUP(k, v)
SELECT k, coalesce(sum(v), 0), string_agg(v::text, ',' order by v) FROM a GROUP BY ROLLUP(k)
SELECT k+1, count(*) FROM a GROUP BY ROLLUP(k+1)
SELECT k, percentile_disc(0.5) within group (order by v), mode() within group (order by v) FROM a GROUP BY ROLLUP(k)
SELECT * FROM b WHERE EXISTS (SELECT k, count(*) FROM e GROUP BY ROLLUP(k))
SELECT * FROM (SELECT k, count(*) c FROM a GROUP BY ROLLUP(k)) s FULL JOIN b ON s.c = b.v
SELECT k, sum(c) FROM (SELECT k, count(*) c FROM a GROUP BY ROLLUP(k)) s GROUP BY ROLLUP(k)
SELECT k, json_agg(v order by v), count(*) FROM a GROUP BY ROLLUP(k)
SELECT k, count(*) FROM a GROUP BY k, ROLLUP(v), CUBE(k)
SELECT v + 1 + -1 from a
select x, y from f where x = y and x::text = '-0'
select a.x, b.y from f a join f b on a.x = b.y where a.x::text = '-0'
SELECT k, v, grouping(k, v), grouping(v, k), count(*) FROM a GROUP BY ROLLUP(k, v)
SELECT k, v, grouping(k), grouping(v) FROM a GROUP BY GROUPING SETS ((k, v), (k), ())
SELECT 5 AS x FROM a GROUP BY ()
SELECT 5 AS x FROM e GROUP BY ()
SELECT 5 AS x FROM e GROUP BY (), ()
SELECT 1 AS one, count(*) FROM a GROUP BY ROLLUP(one)
SELECT 1 AS one, 1 AS two, count(*) FROM a GROUP BY ROLLUP(one)
SELECT 1 AS one, 2 AS two, count(*) FROM a GROUP BY CUBE(1, 2)
SELECT 1 AS one, count(*), one FROM (select 2 as one from a) s GROUP BY ROLLUP(s.one)
SELECT 1 AS one, count(*) FROM a GROUP BY GROUPING SETS ((one),(one),())
SELECT 'x' AS one, k, count(*) FROM a GROUP BY GROUPING SETS ((one),(k),(one,k))
SELECT k AS p, k AS q, count(*) FROM a GROUP BY p, ROLLUP(q)
SELECT k AS p, k AS q, count(*) FROM a GROUP BY CUBE(p, q)
SELECT k AS p, k AS q, k, count(*) FROM a GROUP BY k, ROLLUP(q)
SELECT k, k AS q, count(*) FROM a GROUP BY k, ROLLUP(2)
SELECT k, rank(k) WITHIN GROUP (ORDER BY v) FROM a GROUP BY ROLLUP(k)
SELECT k, dense_rank(k) WITHIN GROUP (ORDER BY v), percent_rank(k) WITHIN GROUP (ORDER BY v), cume_dist(k) WITHIN GROUP (ORDER BY v desc), rank(k, 1) WITHIN GROUP (ORDER BY v, k) FROM a GROUP BY CUBE(k)
SELECT k, rank(1) WITHIN GROUP (ORDER BY v) FROM a GROUP BY ROLLUP(k)
select k, grouping(k) from a group by k
select k, v, grouping(k, v) from a group by k, v having grouping(k) = 0
select avg(null::int) over (order by k groups between 1 preceding and current row) from a
SELECT 1 AS one, count(*) FROM e GROUP BY ROLLUP(one)
SELECT v FROM a WHERE k=1 EXCEPT SELECT v FROM a WHERE k IS NULL
SELECT v FROM m WHERE k=1 EXCEPT SELECT v FROM m WHERE k=2
SELECT k, bool_and(v > 0), every(v > 1), stddev(v), variance(v) FROM a GROUP BY ROLLUP(k)
select x::text, y from f where x = y and y::text = '0'
select x, y from f where x in (select y from f) and x::text = '-0'
select x, y from f where x = 0 and x::text = '-0'
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
SELECT k, v, count(*) FROM a GROUP BY DISTINCT ROLLUP(k), CUBE(k, v)
SELECT k, v, count(*), grouping(k, v) FROM a GROUP BY DISTINCT GROUPING SETS ((k, v), (v, k), (k), (k), ())
SELECT k, count(*) FROM a GROUP BY DISTINCT k
SELECT rtrim(x::text) x FROM (SELECT 'a'::char(3) x, k FROM a EXCEPT SELECT 'a'::bpchar, k FROM b) o
SELECT rtrim(x::text) x FROM (SELECT 'a'::char(3)::bpchar x, k FROM a UNION SELECT 'a '::bpchar, k FROM b) o
SELECT count(DISTINCT x) FROM (SELECT CASE WHEN k = 1 THEN 'a'::char(3) ELSE 'a'::bpchar END x FROM a) o
select k, v, sum(v) over (order by k range between 1 preceding and 1 following exclude current row), count(*) over (order by k range between 1 preceding and 1 following exclude ties), sum(v) over (order by k range between 1 preceding and 1 following exclude group), sum(v) over (order by k range between 1 preceding and 1 following exclude no others) from a
select k, v, count(*) over (order by k desc range between unbounded preceding and 1 following exclude group), count(*) over (order by k nulls first range between 1 preceding and unbounded following exclude ties), count(*) over (order by k nulls first range between unbounded preceding and 1 preceding exclude current row), count(*) over (order by k range between 1 following and unbounded following exclude group), count(*) over (order by k range between 0 preceding and 0 following exclude ties) from a
select k, first_value(k) over (order by k range between 1 preceding and 1 following exclude group), last_value(k) over (order by k range between 1 preceding and 1 following exclude group) from (select distinct k from a) x
select d, count(*) over (order by d range between interval '3 days' preceding and interval '2 days' following exclude current row), count(*) over (order by d desc range between interval '1 day' preceding and interval '1 day' following exclude group) from (select date '2024-01-01' + v d from m) x
select n, count(*) over (order by n range between 0.5 preceding and 1 following exclude current row), sum(n) over (order by n range between 0.01 preceding and 0.01 following exclude group) from (select (v / 4.0)::numeric(10,2) n from m) x
select x, count(*) over (order by x range between 4 preceding and 2147483647 following), count(*) over (order by x desc range between 3 preceding and current row) from (select 2147483644 + v x from m) x
select x, count(*) over (order by x range between 4 preceding and 9223372036854775807 following), count(*) over (order by -x range between 9223372036854775807 preceding and 1 following) from (select 9223372036854775804 + v x from m) x
select x, count(*) over (order by x range between current row and 2147450884 following) from (select (32764 + v)::smallint x from m) x
select t.k, u.k, s.x from a t, b u join lateral (values (t.k), (u.k)) s(x) on u.v = s.x
select * from a t, b u left join lateral (select t.k + u.k as z where t.v = 1) s on true
select x.k, s.* from a x, lateral (select y.k, z.v from a y join b z on x.k = 1) s(p, q)
select x.k, s.* from a x, lateral (select y.k, z.v from a y join b z on x.k = 1 and y.k = z.k) s(p, q)
select * from a x where exists (select 1 from a y join b z on x.k = 1 and y.k = z.v)
select x.k, (select count(*) from a y join b z on x.k = 1 where y.v = 1) c from a x
select rtrim(x::"char"::text) x from (values ('\101'), ('\1'), ('abc'), ('\377'), (''), ('\400'), ('\08'), ('é'), (null)) v(x)
select id, c, c ~~ 'abc', octet_length(c), to_jsonb(c), concat(c, 'x'), length(c), c || 'x' y, c = 'abc ', c::text t, c::varchar(3) v, array[c] a, format('%s|', c) from c
select id, c like 'abc ', c ~ 'c$', c similar to 'abc', upper(c), md5(c), c in ('abc', 'a  '), c < 'abd', jsonb_build_object('c', c), concat_ws('-', c, c) from c
select (select 1 as x), exists(select 1), array(select 1), (select count(*) from b), (select max(k) as most from b) as named from a
select pg_typeof(sum(k)), pg_typeof(sum(k::bigint)), pg_typeof(avg(k)), pg_typeof(sum(k::numeric)), pg_typeof(sum(k::real)), pg_typeof(count(*)) from a
select pg_typeof(max(k)) from e
select pg_typeof(sum(k)), 5 from a group by ()
select pg_typeof(sum(k)), count(*) from a
select pg_typeof(sum(k)) from a group by rollup (v)
select * from a where exists (select 1 from b where a.k in (select c.k from m c where c.v=b.v))
select * from a where exists (select 1 from a b where a.k in (select c.k from a c where c.v=b.v))
select * from a x where exists (select 1 from a where x.v in (select v from b) or a.k>1)
select * from a x where not exists (select 1 from b where x.v not in (select v from m where m.k = b.k))
select k, v, exists (select 1 from a y where x.v in (select v from b) or y.k>2) from a x
select k, v, (select count(*) from a y where x.v in (select v from b) or y.k>1) c from a x
select * from a x, lateral (select y.k as yk, x.v in (select v from b where b.k = y.k) as i from m y) s
select * from a x, lateral (select y.k as yk from m y where x.v = any (select v from b where b.k = y.k) is not true) s
select * from a x where exists (select from m y where (x.k, x.v) in (select c.k, c.v from b c where c.k = y.k))
select * from a x where exists (select from m y where (x.k, y.v) not in (select c.k, c.v from b c where c.k = y.k))
select ntile(k) over (order by v, k), k, v from a
select ntile(v) over (partition by k order by v), k, v from a
select ntile(k) over (order by k nulls first, v), k, v from a
select ntile(v + 1) over (order by k, v), k, v from m
select ntile(v * 2) over (order by k, v desc), k, v from m
select ntile(case when k > 1 then 2 end) over (order by k, v), k, v from m
select ntile(k - 1) over (order by k desc) from b where k > 1
select * from ((select 2 as v) union all (select 3 as v)) as q1 cross join lateral ((select * from ((select 4 as v) union all (select 5 as v)) as q3) union all (select q1.v)) as q2
select * from ((select 2 as v) union all (select 3 as v)) as q1 cross join lateral ((select k from b) union all (select q1.v)) as q2
select * from ((select 2 as v) union all (select 3 as v)) as q1 cross join lateral ((select 4) union all (select q1.v)) as q2
select * from a q1 cross join lateral ((select * from ((select 4 as v) union all (select 5 as v)) as q3) union all (select q1.v)) as q2
select j.k, j from (a join b using (k)) as j
select j.k from (a join b using (k) as x) as j
select * from (a join b using (k)) as j(x, y)
select j.*, z.k as zk from (a left join b on a.k = b.k) as j(p, q, r) full join e z on z.k = j.r
select x, w from (a cross join b) j(x, y, z, w) where y = w
select count(*) from (a join b on a.v = b.v) j group by j
select * from ((a join b using (k)) as j join m using (k)) as l(k, v1, v2, v3)
select rtrim(c1) c1, c2 from ((select 3 as c0, 'abc'::bpchar as c1, c as c2 from c) except (select id, c, vc from c)) x
select rtrim(c1) c1, c2 from (select 'abc'::bpchar as c1, c as c2 from c except select vc, c from c) x
select rtrim(c1) c1, c2::char(4) from (select distinct 'abc'::bpchar as c1, c::bpchar as c2 from c) x
select rtrim(c1) c1, c2 from (select 'abc'::bpchar as c1, c as c2 from c except all select vc, c from c) x
select rtrim(c1) c1, c2 from (select 'abc'::bpchar as c1, c as c2 from c union select vc, c from c) x
select * from a, lateral (select 1 as c from b where false except all select 1 as c from b where k > v) l
select * from a, lateral (select 1 as c from b except all select 1 as c from m where m.k = a.k) l
select * from a, lateral (select 1 as c from b where false intersect all select 1 as c from b where k > v union all select a.v) l
select 1 as c from a where false except all select 1 from a where k > v
select case when k = 1 then 'infinity'::timestamp end t, case when v = 1 then '-infinity'::date end d from a except all select 'infinity'::timestamp, case when v = 1 then '-infinity'::date end from m
select c::"char"::text as t, id from c
