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
select interval '1 2' day to hour as x, interval '3' hour to minute as y, interval '3:4' minute to second as z, interval '3:4' hour to second as u, interval '3:4:5' minute to second as w
select interval '1.5' day, interval '-1.5' hour, interval '1.7' year, interval '1.7' month, interval '1.7' minute, interval '1.5' second(0), interval '2.5' second(0)
select '1-2'::interval month as a, interval '1-2' day as b, interval '-1-2' year to month as c
select interval '-13 months' year as a, interval '-1 day -02:59:59' hour as b, interval '-90 s' minute as c
select interval '3 4:05:06.789' day to second(1) as a, interval '04:05' day as b, interval '5 days' hour as c, interval '1 2 hours' d
select interval '2000 hours 5' minute as a, interval '+3' day as b, interval ' 2 ' month as c, interval 'P1D' hour as d, interval 'P1DT5H7M' hour as e
select interval '1' year, interval '1-2' year to month, interval '3 4:05' day to minute, interval '3' hour, interval '12:34:56.789' hour to second(1), interval '90' minute, interval '1 2:03:04' day to hour
select '1 year 2 mons 3 days 04:05:06.7'::interval year as a, '1 year 2 mons 3 days 04:05:06.7'::interval month as b, '1 year 2 mons 3 days 04:05:06.7'::interval day to hour as c, cast(interval '1 day 02:03:04.5' as interval second(0)) as d, '3'::interval day as e, '3:4'::interval minute to second as f, '7'::interval second(2) as g
select i::interval year as a, i::interval month as b, i::interval year to month as c, i::interval day as d, i::interval hour as e, i::interval minute as f, i::interval second as g, i::interval day to minute as h, i::interval second(1) as j, i::interval(0) as k, i::interval hour to second(3) as l from (values (interval '-15 mons 3 days -04:05:06.789'), (interval '14 mons -3 days 14:59:59.5'), (null)) v(i)
select interval '1.234' second(2) x, interval '1.236' second(2) y, interval '1 day 01:02:03.456' day to second(1) z, interval(2) '1.236 s' w
select (i::interval minute)::text as t, sum(i::interval hour) as s from (values (interval '1:02:03.5'), (interval '-0:59:59')) v(i) group by 1
