-- Queries over small tables that no view can be made of, or whose views answer in other last digits.
SELECT count(*), now() IS NOT NULL AS n FROM a GROUP BY CUBE(n)
SELECT stddev(x), variance(x), regr_slope(x, y), corr(x, y) FROM f
with recursive x(n) as (with y as (select 1) select * from y union all select n + 1 from x where n < 3) select * from x
with recursive w(c) as (with w(c) as (select 1) select * from w) select * from w
select k, v from a order by k using >, v using <
select '01/02/03 BC'::date, '01/02/99 BC'::date, 'Jan 3 99 BC'::date, '01/02/03'::date
select '\101'::"char", '\1'::"char", 'abc'::"char", '\377'::"char", ''::"char", '\400'::"char", '\08'::"char", 'é'::"char"
select extract(microseconds from timestamp(2) 'now')::int % 10000, extract(microseconds from 'now'::timestamptz(0))::int % 1000000
select interval '1.5' hour, interval '-1.5' day, interval '1.7' year, interval '.5' minute, interval '1.234' second, interval ' 2 ' month
