-- One query a line, each answered alike by PostgreSQL and by the engine.
select * from t
select a + 1, a - 1, a * 2, a / 3, a % 3, -a, +a, abs(a) from t where a < 2147483647
select s + s, s * 2, big / 3, big % 7, s / 2, big + a from t where id <> 4
select c + 1, c - 0.005, c * 3, c * c, c * 1.5, -c, c % 3 from t where id <> 4
select c / 3, 1 / 3.0, 10 / 4.0, n / 7, n + c, n - 1, n * 2 from t where id <> 4
select f + 1, f * 2, f - a, -f, r + 1, r * r, f / 2 from t where id not in (4)
select b || 'x', b || a, 'a' || 'b', a || b, v || ch from t
select d + 1, d - 1, d - date '2020-01-01', d + interval '1 month', ts + interval '1 day', ts - interval '1 month 1 day 01:00:00', tz + interval '1 month' from t where id <> 4
select ts - timestamp '2000-01-01 12:00:00', tz - timestamptz '2001-02-03 04:05:06+02' from t
select i + i, i - interval '1 day', -i, i * 2, i / 2, i * 1.5 from t
select f::text, r::text from t
select a = 10, a <> 10, a < 10, a >= 10, b = 'apple', b < 'b', c > 1.5, d <= '2024-02-29', ts > '2000-01-01', bl = true, u = '00000000-0000-0000-0000-000000000000' from t
select id from t where a = 10 or b is null order by id
select id from t where not (a = 10) order by id desc
select id from t where a in (10, 42) order by 1
select id from t where a not in (10, 42) order by 1
select id from t where a between 0 and 10 order by 1
select id from t where b like 'a%' order by 1
select id from t where b ilike 'B%' order by 1
select id, b like '%\_100\%', b not like 'a%' from t order by 1
select t.id, u.name from t join u on t.a = u.a order by 1, 2
select t.id, u.name from t left join u on t.a = u.a order by 1, 2
select t.id, u.id from t full join u on t.id = u.id order by 1, 2
select * from u join w on u.id = w.x order by u.id, w.k
select id, name, t.b from t join u using (id) order by id
select * from (select id, a from t) x natural join (select id, name from u) y order by id
select count(*), count(a), sum(a), sum(s), sum(big), avg(s), min(a), max(b), min(d), max(ts) from t where id <> 4
select k, count(*), sum(x), avg(x), min(y), max(y), sum(y), avg(y), sum(z) from w group by k order by k
select k, sum(x) from w group by k having sum(x) > 5 order by 2
select x % 2 as m, count(*) from w group by 1 order by 1
select x % 2 as m, count(*) from w group by m order by m
select distinct k from w order by k
select distinct on (k) k, x from w order by k, x desc
select a from t union select a from u order by 1
select a from t union all select id from u order by 1 nulls first
select a from t intersect select a from u order by 1
select a from t except select a from u order by 1
select id from t order by a limit 3
select id from t order by a desc nulls last, id limit 2 offset 1
values (1, 'a'), (2, null), (3, 'c')
select * from (values (1, 'x'), (2, 'y')) v(n, m) where n > 1
with q as (select id, a from t where a is not null) select count(*), sum(a::bigint) from q
with q(x, y) as (select id, a from t) select x from q where y = 10 order by x
select id, (select count(*) from u where u.a = t.a) from t order by id
select id from t where exists (select 1 from u where u.a = t.a) order by id
select id from t where not exists (select 1 from u where u.a = t.a) order by id
select id from t where a in (select a from u) order by id
select id from t where a not in (select a from u where a is not null) order by id
select id from t where a > all (select id from u) order by id
select id from t where a < any (select id from u) order by id
select id, case when a > 5 then 'big' when a is null then 'none' else b end from t order by id
select id, case a when 10 then 'ten' when 42 then 'ft' end from t order by id
select coalesce(a, 0), coalesce(b, 'none'), nullif(a, 10), greatest(a, 5), least(a, 5) from t
select k, x, first_value(x) over (partition by k order by x), last_value(x) over (partition by k order by x rows between unbounded preceding and unbounded following), ntile(2) over (order by x), avg(y) over (partition by k) from w
select case when true then 'x' else 'y'::text end, (select 1), (select 1 as q), exists (select 1), a[1], row_number() over () from (select array[1] as a) x
select substr(b, 2), substr(b, 2, 3), substring(b from 2 for 2), substring(b, 0, 3), substring(b, -1, 4), position('p' in b), strpos(b, 'a'), replace(b, 'p', 'QQ'), translate(b, 'ape', 'xy') from t
select trim(b), btrim(b, 'ae'), ltrim(b, 'a'), rtrim(b, 'e'), trim(leading 'a' from b), repeat(b, 2), reverse(b), split_part(b, ' ', 1), split_part(b, 'p', 2), split_part(b, 'p', -1) from t
select concat(a, b, c), concat_ws('-', a, b, bl), ascii(b), chr(65), chr(8364), md5(b), starts_with(b, 'a'), to_hex(a), to_hex(big), octet_length(b), char_length(b) from t
select abs(c), ceil(c), floor(c), round(c), round(c, 1), trunc(c), trunc(c, 1), sign(c) from t
select ceil(f), floor(f), round(f), trunc(f), abs(f), sign(f) from t where id not in (4)
select round(2.5), round(-2.5), round(2.5::float8), round(3.5::float8), round(1234.567, -2), round(1.005, 2), div(7, 2), trunc(-7.9), 7 / 2, -7 / 2, 7.0 / 2, 7 % -3
select extract(year from d), extract(month from d), extract(dow from d), extract(doy from d), extract(week from d), extract(quarter from d), extract(epoch from d), extract(isodow from d) from t where id <> 4
select extract(hour from ts), extract(minute from ts), extract(second from ts), extract(epoch from ts), extract(milliseconds from ts), extract(microseconds from ts), extract(year from tz), extract(epoch from tz), extract(century from ts), extract(decade from ts) from t
select date_part('year', ts), date_part('second', ts), date_part('epoch', tz), extract(epoch from i), extract(month from i), extract(hour from i), extract(day from i) from t
select date_trunc('day', ts), date_trunc('month', tz), date_trunc('week', ts), date_trunc('quarter', d), date_trunc('hour', i), date_trunc('year', ts) from t where id <> 4
select date_bin('15 minutes', ts, timestamp '2001-01-01'), date_bin('1 day', tz, timestamptz '2001-01-01 02:00+00') from t
select tz at time zone 'America/New_York', ts at time zone 'America/New_York', tz at time zone 'UTC', ts at time zone 'Asia/Kolkata' from t where id <> 4
select age(ts, timestamp '2001-04-10'), age(timestamp '2001-04-10', ts) from t
select to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US'), to_char(tz, 'Mon DD, YYYY HH12:MI AM'), to_char(ts, 'Day Month D ID Q IW') from t where id <> 4
select to_timestamp(1.5), to_timestamp(0), make_date(2024, 2, 29), make_timestamp(2024, 1, 2, 3, 4, 5.5), justify_hours(interval '50 hours'), justify_days(interval '65 days')
select ts::date, tz::date, ts::time, d::timestamp, d::timestamptz, tz::timestamp, ts::timestamptz, tm::interval from t where id <> 4
select a::bigint, a::text, c::int, f::int, n::float8, bl::int, a::bool, c::numeric(5,1), c::float8, s::numeric from t where id not in (4, 7, 6)
select '12'::int + 1, '1.5'::numeric, 't'::bool, '2024-01-01'::date, '{1,2}'::int[], 'abc'::varchar(2), 'ab'::char(4), '{"b":1,"a":2}'::jsonb
select v = 'hello', ch = 'ab', ch || '|', length(ch), v || '!', ch::text || '|', char_length(v) from t
select array_length(arr, 1), cardinality(arr), arr[1], arr[2:3], arr || 5, 0 || arr, arr || arr, array_append(arr, 9), array_position(arr, 2), array_remove(arr, 2) from t
select arr @> array[1], array[1] <@ arr, arr && array[3, 99], 10 = any(arr), 1 <> all(arr), array_to_string(arr, ','), array_to_string(arr, ',', '*'), arr = array[1,2,3] from t
select string_to_array('a,b,,c', ','), string_to_array('abc', null), string_to_array('', ','), string_to_array('a,b', ',', 'b')
select j -> 'a', j ->> 'a', j -> 'b', j ->> 'b', j -> 'cc', j ->> 'cc', j -> 0, j ->> 2, j #>> '{b,k}', jsonb_typeof(j) from t
select jsonb_build_object('b', 1, 'aa', 'x', 'c', null), jsonb_build_array(1, 'a', true, null), to_jsonb('x'::text), to_jsonb(5)
select string_agg(b, ',' order by id), string_agg(b, '' order by b desc), array_agg(a order by id), array_agg(id order by a nulls first, id) from t
select k, string_agg(x::text, ',' order by x), array_agg(x order by x desc), count(distinct x), sum(distinct x) from w group by k order by k
select count(*) filter (where x > 2), sum(x) filter (where k = 'a'), bool_and(x > 0), bool_or(x > 7), every(x is not null), bit_or(x) from w
select k, x % 2, count(*), grouping(k), grouping(k, x % 2) from w group by rollup(k, x % 2) order by 1, 2, 3, 4
select k, x, sum(z) from w group by grouping sets ((k), (x), ()) order by 1, 2, 3
select k, x, count(*) from w group by cube(k, x) order by 1, 2, 3
select stddev(f), variance(f), corr(f, f) from (select x::float8 f from w) q
select corr(x, y), covar_pop(x, y), regr_slope(y, x) from w
select * from generate_series(1, 5)
select * from generate_series(5, 1, -2) as g(x)
select * from generate_series(1, 3) with ordinality as g(v, n)
select * from generate_series(timestamp '2024-01-30', timestamp '2024-04-01', interval '1 month')
select g, g * 2 from generate_series(1, 3) g where g > 1
select t.id, x from t, unnest(t.arr) x order by 1, 2
select t.id, x.* from t left join lateral unnest(t.tarr) with ordinality as x(e, n) on true order by 1, 3
select id, unnest(arr) from t order by 1, 2
select generate_series(1, 3), 'x'
select t.id, q.n from t, lateral (select count(*) as n from u where u.a = t.a) q order by 1
select k, x, percent_rank() over (partition by k order by x), cume_dist() over (partition by k order by x), dense_rank() over (order by k), nth_value(x, 2) over (partition by k order by x) from w
select sum(sum(x)) over (order by k) from w group by k
select b ~ 'a.*e', b ~* '^B', b !~ 'z', regexp_replace(b, 'p+', '<\&>', 'g'), regexp_replace(b, '(a)(p)', '\2\1'), regexp_match(b, '(a)(.)'), regexp_like(b, '[[:upper:]]'), regexp_count(b, 'p'), substring(b from 'p+') from t
select regexp_split_to_array('a1b22c', '[0-9]+'), b similar to '(a|B)%' from t
select id is distinct from a, a is not distinct from 10, bl is true, bl is not false, bl is unknown, (a, id) = (10, 1), (a, id) < (10, 5), row(1, 2) = row(1, null) from t
select * from (select 1 as a) x cross join (select 2 as b) y
select x.id from t x, t y where x.id = y.id and x.a = 10 order by 1
select (select max(id) from u), (select name from u where id = 1)
select count(*) from (select distinct a from t union all select id from u) q
select k, count(*) from w where x is not null group by k order by count(*) desc, k nulls first fetch first 1 row with ties
select tm + interval '2 hours', tm - time '01:00', d + tm, tm < '12:00' from t where id <> 4
select 1 as one, 'a' as two union all select 2, null order by 1
select null union select 1
select a from t where a = (select min(a) from u where a > 5)
select * from generate_series(timestamptz '2024-01-30', timestamptz '2024-02-02', interval '18 hours')
select * from generate_series(1.5, 3.5, 0.5)
select id, j -> 0, j ->> 0, j ->> 2, j #>> '{b,k}' from t order by id
select id from t where (select count(*) from u where u.a = t.a and u.id in (select x from w where w.x = u.id)) > 0 order by id
select k, (select max(x) from w w2 where w2.k = w.k) from w group by k order by 1
select t.id, u.id from t join u on t.a = u.a and u.name <> 'one' where t.id < 7 order by 1, 2
select t.id from t left join (u join w on u.id = w.x) on t.id = u.id where w.k is null order by 1
select * from (select id from t order by a limit 2) q order by id
(select id from t order by id limit 1) union all (select id from u order by id desc limit 1)
select count(*) from t, u, w
select a.id, b.id from t a join t b on a.id = b.id - 1 join t c on c.id = b.id + 1 order by 1
select id from t where id in (values (1), (3))
select id, exists (select 1 from u where u.id = t.id), id in (select id from u), not (id in (select id from u)) from t order by id
select id, a in (select a from u), a not in (select a from u) from t order by id
select id, a = any (select a from u), a <> all (select id from u), a >= all (select id from u where id < 3), a < any (select a from u) from t order by id
select (a, id) in (select a, id from u) from t where id < 3 order by id
select array(select id from u where id < 4)
select coalesce((select name from u where u.id = t.id), 'none') from t order by id
select sum(case when a > 5 then 1 else 0 end), count(nullif(a, 10)), max(coalesce(a, -1)) from t
select k, sum(x) s from w group by k order by s desc nulls last, k
select k k2, count(*) from w group by k2 order by k2
select length(k), count(*) from w group by length(k) having length(k) is not null
select x + 1 as y, y as z from w order by y, z
select -x as x from w order by x
select k, x from w order by k desc, -x
select 'a' as x, 1 as y union select 'b', 2 union all select 'a', 1 order by y, x
select 1.5 union select 2 union select 3.25 order by 1
select x from (select 1 as x union all select null) q where x is null
select sum(y), avg(y), min(y), max(y), sum(y * x), sum(x) / count(x), avg(x * 1.0), sum(y) / 3 from w
select 10 / 3, 10.0 / 3, 10 / 3.0, 1::numeric / 3, 2::float8 / 3, 7::bigint / 2::smallint, 1e0 / 7, 100000.0 / 7
select 0.1 + 0.2, 0.1::float8 + 0.2::float8, 1.10 * 1.10, 3.00 - 1.0, 5 % 3.5, round(10.0 / 3, 4)
select (1.5)::int, (2.5)::int, (-1.5)::int, (2.5::float8)::int, (1e10)::bigint, 0.5::float4::text, 1e15::float8::text, 123456789.125::float8::text, 1e-5::float8::text
select f::numeric, r::numeric, f::bigint from t where id in (1, 2, 5)
select 'a' < 'B', 'a' < 'b', 'abc' < 'abcd', '' < 'a', 'é' > 'z', 'a' = 'a '
select i = interval '32 days 03:04:05', i < interval '1 day', i > '0', i between '-1 year' and '1 year' from t
select u::text, u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', by || '\x01', encode(by, 'hex'), length(by), by = '\x61' from t
select bl and true, bl or null, not bl, bl is null, bl = (a > 5) from t
select x, count(*) over (), sum(x) over (order by x range between 2 preceding and current row), max(x) over (partition by k) from w where x is not null
select k, exists (select 1 from w w2 where w2.k = w.k and w2.x > 4), k in (select name from u), 1 + (select count(*) from u where u.name > w.k) from w group by k order by 1
select k from w group by k having sum(x) > (select min(id) from u) order by 1
select id from t where a in (select a from u) or id = 2 order by id
select id from t where not (a in (select a from u where a is not null)) order by id
select id from t where (a not in (select a from u)) is null order by id
select id from t where a not in (select a from u) order by id
select * from generate_series(timestamp '2024-01-31', timestamp '2024-06-01', interval '1 month')
select t.id, (select sum(x) from w where w.x <= t.id) from t order by 1
select id, (select name from u where u.id = t.id limit 1) from t order by 1
select id, (select u.name from u where u.a = t.a order by u.id desc limit 1) from t order by 1
select t.id, q.name from t left join lateral (select name from u where u.a = t.a order by id limit 1) q on true order by 1
select id, (select name from u where u.id = t.id + 1 order by name limit 1) from t order by 1
select u.id, (select b from t where t.big = u.a order by t.id limit 1), exists (select 1 from t where t.id = abs(u.id) offset 1) from u order by 1
select t.id, q.name from t, lateral (select name from u where u.id = t.id + 1 order by name limit 1) q order by 1
select id, (select max(rn) from (select row_number() over (order by name) rn from u where u.id = t.id + 1) q) from t order by 1
select id, (with q as (select name from u where u.id is not distinct from t.id + 1) select name from q order by 1 limit 1) from t order by 1
select id, (select name from u where (u.id, u.id + 0) = (t.id + 1, t.id + 1) order by name limit 1), (select max(name) from u group by id having max(id) = t.id + 1 limit 1) from t order by 1
select k, x from w where x = (select max(x) from w w2 where w2.k = w.k) order by k
select distinct x % 3 from w order by 1
select count(distinct k), count(distinct (x % 2)) from w
select max(x), k from w group by k order by max(x) desc nulls last limit 2
select u.name, sum(t.c) from t join u on t.a = u.a group by u.name order by 1
select u.id, count(t.id) from u left join t on t.a = u.a group by u.id order by 1
select id from t where b = 'apple' collate "C"
select sum(i), min(i), max(i), avg(f) from t where id in (1, 2, 5)
select array_agg(distinct a order by a) from t
select string_agg(distinct b, '|' order by b) from t
select array_agg(b order by c desc nulls last, id) from t
select count(*), 'x' from t having count(*) > 3
select 1 where false
select 1 where exists (select 1 from t where id = 1)
select t.id from t where t.a = (select u.a from u where u.id = t.id)
select x.* from (select * from u) x where x.name is not null order by id
select public.u.name from public.u order by 1
select "a", "id" from u order by "id"
select id as "My Id", a AS select_ from u order by 1
select a as b, b as a from t order by a, b limit 3
select id "x y" from u limit 0
select upper(name) || '-' || id::text from u order by 1
select date '2024-01-31' + interval '1 month', timestamp '2024-03-31 10:00' - interval '1 month', date '2024-03-01' - 1, date '2024-03-01' - date '2024-02-01'
select interval '1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds', interval '-1 day', interval '1' hour, interval '90 minutes', '1 day'::interval * 3, interval '10 days' / 4
select extract(epoch from interval '1 month 1 day'), extract(year from date '2024-05-05'), date_part('dow', date '2024-05-05'), extract(second from time '10:20:30.5')
select timestamp '2024-02-29 00:00:00' = date '2024-02-29', timestamptz '2024-01-01 00:00:00+00' > timestamp '2023-12-31', time '10:00' > '09:59'
select to_char(timestamp '2024-02-09 15:04:05.678', 'YYYY/MM/DD HH12:MI:SS.MS AM Dy Mon FMMonth FMDay DDD')
select 1 = 1.0, 1 < 1.5, 2::smallint = 2::bigint, 1.0::float4 = 1, 1.1::float4 = 1.1
select 'abc' like 'a_c', 'abc' like 'A%', 'abc' ilike 'A%', 'a%c' like 'a\%c', 'a%c' like 'ax%c' escape 'x', 'abc' not like 'b%', 'abc' ~~ 'ab%', null like 'x'
select 'foobar' ~ '^foo', 'foobar' ~ 'o{2}', 'FOO' ~* 'foo', 'a.b' ~ 'a\.b', 'abc' similar to 'a(b|x)c', 'abc' similar to 'b', regexp_replace('aaa', 'a', 'b'), regexp_replace('aaa', 'a', 'b', 'g'), regexp_match('foo123', '([a-z]+)([0-9]+)')
select coalesce(null, null, 1), coalesce(null, 'x'), nullif(1, 1), nullif('a', 'b'), greatest(1, 2.5, null), least('b', 'a'), greatest(date '2020-01-01', '2021-01-01')
select case when 1 > 2 then 1 when 2 > 1 then 2.5 end, case 'a' when 'b' then 1 else 0 end, case when null then 1 else 2 end
select 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 4, 256 >> 2, -5 % 3, @ -5
select 'a'::char(3) || 'b', 'a'::char(3) = 'a', length('a  '::char(5)), 'abc'::varchar(2) || 'd', 'x'::char
select 9223372036854775807, -9223372036854775808, 99999999999999999999, 1.0000000000000000001, 0.1e-3, 1e20
select 100::numeric(5,2), 1.005::numeric(5,2), 12.345::numeric(4,1), (-0.5)::int, 0.5::int, 1.5::int
select c is distinct from n, n is distinct from c, round(n, 1) is distinct from null, null is not distinct from c / 3, extract(year from ts) is distinct from null, n is distinct from 1.5, (c, n) is distinct from (n, null), array[c] is distinct from array[n], c is not distinct from a from t
select p.id, q.id from t p join t q on p.c is not distinct from q.n order by 1, 2
select true and null, false and null, true or null, not null::bool, null is null, null = null, null is distinct from null, (null::int) in (1, null)
select * from (values (1, 1.5, 'a', date '2020-01-01'), (2, 2.25, null, null)) v order by 1
select v.column1 from (values (1), (2.5), (3)) v order by 1
select n, n * n from generate_series(1, 4) as s(n) order by n desc
select * from unnest(array['x', 'y', null]) with ordinality
select a.n, b.n from generate_series(1, 2) a(n), generate_series(a.n, 2) b(n) order by 1, 2
select regexp_split_to_table('a b c', ' ')
select * from string_to_table('a,b', ',') s
select count(*) filter (where a > 5) as big, count(*) filter (where a <= 5) as small, count(*) as all from t
select k, x, sum(x) over (partition by k order by x nulls first rows unbounded preceding) from w
select k, sum(x) over w1, avg(x) over (w1 order by x nulls first) from w window w1 as (partition by k)
select x, lag(x, 2, -1) over (order by x), lead(x) over (order by x desc) from w where x is not null and k is not null and not (k = 'b' and x = 1)
select k, rank() over (order by count(*) desc), count(*) from w group by k
select distinct count(*) over (partition by k) from w order by 1
select sum(x) from w union all select count(*) from w
(select k from w order by x limit 2) except (select 'zzz')
select k from w intersect all select k from w where x > 2
select k from w except all select k from w where x > 2
with a as (select 1 as x), b as (select x + 1 as y from a) select a.x, b.y, (select max(y) from b) from a, b
with t as (select 42 as answer) select * from t
with recursive r as (select 1 as x) select * from r
select * from t as q(one, two) where one = 1
select q.* from (select id, name from u) as q(i, n) order by i
select u.*, t.id from u left join t on t.id = u.id order by u.id
select * from u a left join u b on a.id = b.a order by a.id
select * from u a right join (select 10 as a) b using (a) order by id
select * from (select 1 as id, 'x' as v) a full join (select 2 as id, 'y' as w) b using (id) order by id
select id from u natural join (select 1 as id) z
select count(*) from u cross join w where u.id = 1
select max(b), min(b), max(v), min(ch), max(u::text), min(tm), max(d) from t
select md5('abc'), sha256('abc'::bytea), encode('\xdead'::bytea, 'hex'), decode('beef', 'hex'), length('\xdead'::bytea)
select to_hex(255), to_hex(-1), chr(97), ascii('a'), repeat('ab', 3), reverse('abc'), lpad('5', 3, '0'), split_part('a-b-c', '-', 2), translate('12345', '143', 'ax'), overlay('Txxxxas' placing 'hom' from 2 for 4), initcap('hi THOMAS-x')
select round(42.4382, 2), round(-1.5), trunc(42.8), trunc(42.4382, 2), ceil(-42.8), floor(-42.8), sign(-8.4), mod(9, 4), div(9, 4), abs(-17.4), power(9.0::float8, 3), sqrt(2::float8), gcd_missing from (select 1 as gcd_missing) z
select position('b' in 'abc'), substring('Thomas' from 2 for 3), substring('Thomas' from 3), trim(both 'xyz' from 'yxTomxx'), ltrim('zzzytest', 'xyz'), concat('a', null, 1, true), concat_ws(',', 'a', null, 'b'), left('abcde', 2), right('abcde', -2), strpos('high', 'ig')
select bool_and(a > 0), every(bl), bit_and(s), bit_or(s), bit_xor(s), min(s), max(big) from t where id in (1, 2, 5)
select avg(a), avg(c), avg(big), sum(c) / count(*), avg(n) from t where id in (1, 2, 5)
select jsonb_typeof('{}'), jsonb_typeof('[]'), jsonb_typeof('1'), jsonb_typeof('"x"'), jsonb_typeof('true'), jsonb_typeof('null'), jsonb_array_length('[1,2,3]'), '{"a": {"b": [10, 20]}}'::jsonb #> '{a,b}', '{"a": {"b": [10, 20]}}'::jsonb #>> '{a,b,1}', '[1,2]'::jsonb -> 1, '{"a":"x"}'::jsonb = '{"a": "x"}'::jsonb
select t.id from t, u where t.id = u.id and (t.b like 'a%' or u.name = 'two') order by 1
select id, sum(a) from t where id in (1,2,3) group by id having sum(a) is null
select 1 from u group by () having true
select a, a from u order by a, a
select name, id from u order by length(name) desc nulls last, id
select -id from u order by -id
select id + 1 as id from u order by id desc
select k || 'x' as k, count(*) from w group by w.k order by 1
select n * n from t where id <> 4
select i::text, a::text, c::text, d::text, ts::text, tz::text, bl::text, u::text, by::text, tm::text, arr::text, tarr::text, j::text from t
select lead(x, 1, 0) over (order by k, x), rank() over (order by k) from w
select sqrt(4), sqrt(2.0::float8), power(2, 10), 2 ^ 3, ln(2.718281828459045::float8), log(100::float8), mod(7, 3), mod(-7, 3), pi(), degrees(1), radians(180)
select x, sum(x) over w1, count(*) over w1 from w window w1 as (order by x, k, z rows between 1 preceding and 1 following) order by x, k
select (array[1,2,3])[2], (array['a','b'])[1], array[1,2] || array[3], array_length(array[1,2], 1), array[1,null,3], '{a,b}'::text[], array[]::int[], cardinality('{}'::int[])
select 'NaN'::float8, 'Infinity'::float8, '-Infinity'::float4, 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 1e30
select length(b), lower(b), upper(b), initcap(b), left(b, 2), right(b, 2), left(b, -1), right(b, -1), lpad(b, 8, '*'), rpad(b, 3) from t
select upper(b) as x, count(*) from t group by upper(b) order by 1
select x, upper(x), lower(x), initcap(x), x ilike 'É%', x ~* 'É', x ~ '\w', x ~ '^[[:alpha:]]+$', x ~ '[[:upper:]]', x ~ '[[:lower:]]' from (values ('éclair'), ('ÉCLAIR x'), ('ß ŉ ǰ ﬁ ǆ ı'), ('İ Σ ΑΣ'), ('ǆa straße_x ÿ1a'), ('日本')) v(x)
select bl::text || bl, array[true, false]::text, array[1.50, 2.25], array[date '2020-01-01'], array[null, 'x y', 'a"b', 'c\d']::text from t
select true, false, null, 'x', 1.50, 1e3, .5, 12345678901, -5, 'abc'::text, '5'::int, date '2020-01-01', interval '1 day', array[1,2], array['a',null]
select f::text, count(*) from t group by f::text
select i::text, max(id) from t group by i::text order by 2
select tz::text || 'x' as z, count(*) from t group by tz::text || 'x' having count(*) > 0
select c * n, count(*) from t where id not in (4, 7) group by c * n
select sum(a) over (partition by b order by id), b || '!' from t where id <> 4
select t.id, x.id from t join lateral (select u.id from u where u.a = t.a) x on true order by 1, 2
select case when count(*) > 5 then 'many' else 'few' end, coalesce(sum(a) filter (where a > 1000000000), 0) from t where id <> 4
select date_trunc('month', tz) as m, count(*), count(distinct a) from t where id <> 4 group by 1 order by 1
select extract(year from d) as y, sum(c) from t where id <> 4 group by extract(year from d) order by 1
select k, percentile_cont(0.5) within group (order by x), percentile_disc(0.5) within group (order by x), mode() within group (order by x) from w group by k
select percentile_cont(0.25) within group (order by y), percentile_disc(0.9) within group (order by y desc), mode() within group (order by k), percentile_disc(0) within group (order by z), percentile_cont(1) within group (order by x) filter (where x < 6) from w
select percentile_cont(0.5) within group (order by x), mode() within group (order by x) from w where x > 100
select k, jsonb_agg(x order by x), jsonb_agg(y order by z desc), jsonb_object_agg(z, x) filter (where z is not null) from w group by k
select k, stddev(x), variance(x), var_pop(y), stddev_pop(y), var_samp(z) from w group by k
select id, j -> 'cc' -> 1, j #> '{cc,0}', j ->> 'b', j ? 'a', j ?| array['q','b'], j ?& array['a','b'], j @> '{"a": 1}', j @> '[1]', j - 'a', jsonb_strip_nulls(j) from t where jsonb_typeof(j) = 'object'
select id, jsonb_set(j, '{a}', '{"n": 1}'), j #- '{b,k}', jsonb_set(j, '{zz}', '0', false) from t where jsonb_typeof(j) = 'object'
select id, e.key, e.value from t, jsonb_each(j) e where jsonb_typeof(j) = 'object'
select id, o.k from t, jsonb_object_keys(j) as o(k) where jsonb_typeof(j) = 'object'
select id, value from t, jsonb_array_elements(j) where jsonb_typeof(j) = 'array'
select id, e.w from t, jsonb_array_elements_text(j) as e(w) where jsonb_typeof(j) = 'array'
select id, sqrt(c), degrees(f), radians(f), atan2(f, 2) from t where id in (1, 5, 6)
select 'infinity'::timestamp, 'infinity'::date + 1, isfinite('infinity'::timestamp), 'infinity'::timestamp::text, 'infinity'::timestamptz + interval '1 day', date_trunc('day', '-infinity'::timestamp)
select id from t where a in ((select max(a) from u), 10, id)
select id from t where a in ((select a from u)) or a in ((select min(a) from u) + 0, 42)
select j, count(*), j = '1.000', j ->> 0 from (values ('1'::jsonb), ('1.0'), ('1.00'), ('[1, 2.50]'), ('[1, 2.5]'), (null), ('{"a": 0.0}'), ('{"a": 0}')) v(j) group by j
select jsonb_typeof(j), n, count(*) from (values ('1'::jsonb, 1), ('1.0', 2), ('1.00', 1), ('"1.0"', 1), ('"1.00"', 1)) v(j, n) group by j, n having j <> '2' order by 2, 1
select count(*), sum((j ->> 'a')::numeric), max(jsonb_typeof(j)) from (values ('{"a": 1}'::jsonb), ('{"a": 1.0}'), ('{"a": 2}')) v(j) group by j
select distinct j, n from (values ('1'::jsonb, 1), ('1.0', 1), (null, 2), (null, 2)) v(j, n) order by n
select distinct on (n) n, j -> 0 from (values ('[1]'::jsonb, 1), ('[1.0]', 2)) v(j, n) order by n
select distinct j, k from (values ('1'::jsonb, '2'::jsonb), ('1.0', '2.0'), ('1', '2.5'), ('1.0', '2.50')) v(j, k)
select x.j, count(*) from (select distinct j from (values ('1'::jsonb), ('1.0'), ('2')) v(j)) x group by x.j
select '1'::jsonb union select '1.0' union select '2'
select j = '1', j = '3' from (select * from (values ('1'::jsonb), ('2'), ('3')) v(j) intersect select * from (values ('1.0'::jsonb), ('3.00')) w(j)) x
select * from (values ('1'::jsonb), ('2'), ('3')) v(j) except select * from (values ('1.0'::jsonb), ('3.00')) w(j)
select count(*) from (select array['1'::jsonb] as a union select array['1.0'::jsonb]) x
select j, count(*) over (partition by j), row_number() over () > 0 from (values ('1'::jsonb), ('1.0'), ('2')) v(j) group by j
select x, x::jsonb from (values (' {"b":1, "a" : [1,2 , {"z":null}], "aa":"x","a":2}'), ('1e5'), ('1.50e1'), ('-0'), ('-0.00'), ('1.5E-3'), ('"a\u00e9\n\/\"\\ \t"'), ('[]'), ('{}'), ('[ [ ], { } ]'), ('null'), (' true '), ('{"a":{"c":1,"b":[{"x":1.0}]}, "":0}'), (null), ('12e-2'), ('0e5'), ('0.00e1'), ('0e-3'), ('123456.789e3'), ('123456.789e2'), ('123456.789e4'), ('"\ud83d\ude00"'), ('-1e2'), ('-1.25e-10'), ('"\\u0041"'), ('100e-1'), ('{"é":1,"z":2,"aaa":3}')) v(x)
select x::json, (x::json)::jsonb, (x::json) ->> 'a' from (values ('{"b":1, "a" : 2 , "a":3}'), ('{}')) v(x)
select (x::jsonb) ->> 'a', (x::jsonb) = '{"a": 1}' from (values ('{"a":1.0}'), ('{"a":1, "a": "q"}')) v(x)
select b, (case when b like 'a%' then '[1]' else '{}' end)::jsonb from t
select ('["' || b || '"]')::jsonb from t where b not like '%"%'
select ln(2.0), ln(0.95), ln(1.0), ln(12345.678), log(2.0), log(100.00), log(2.0, 64.0), log10(1000.0), exp(1.0), exp(-2.5), exp(0.0), exp(10.00), power(2.0, 0.5), power(2.5, -2), 2.0 ^ 3, 2.0 ^ 0.5, power(0.0, 0.5), pow(1.5, 30), power(10.0, -3)
select ch, a, grouping(ch), grouping(ch, a), count(*) from t group by grouping sets ((ch, a), (ch), ())
select id, jsonb_build_object('id', id, 'n', (select count(*) from u where u.a = t.a), 'all', (select jsonb_agg(u.id order by u.id) from u where u.a = t.a)) from t
select *, upper((select max(name) from u where u.a = t.a)) as x from t where id < 4
select to_char((select max(id) from u), 'FM00'), concat((select count(*) from t), '/', (select count(*) from u))
select regexp_split_to_array('a?b&c/d', '[/?&]'), regexp_split_to_array(' a , b,c ', '\s*,\s*'), regexp_split_to_array('a1b', '[[:digit:]]')
select id, z, tz at time zone z, ts at time zone z, timezone(z, tz) is null from t, (values ('Europe/Berlin'), ('UTC'), (null), ('America/New_York'), ('Etc/GMT+5'), ('gmt')) v(z)
select x at time zone z from (values (timestamp '2024-03-31 02:30'), ('2024-10-27 02:30'), ('2024-10-27 01:59:59.999999'), ('infinity'), ('2024-11-03 01:30')) a(x), (values ('Europe/Berlin'), ('America/New_York'), ('Australia/Lord_Howe')) b(z)
select to_char(n, '99V99'), to_char(n::bigint, 'FM9V9'), to_char(n::numeric / 8, '999V999PR'), to_char(n::float8 / 8, '999V9'), to_char(n::float4, 'RN') from generate_series(-12, 14, 13) g(n)
select x, to_number(x, '9,999.99'), to_number(x, 'L9999D9PR'), to_number(x, '9V9'), to_number(x, 'SG"x"99') from (values ('1,234.5'), ('<12.5>'), (' 7'), ('-x8'), ('12'), (null)) v(x) where x is null or x ~ '^[1-9]'
