-- Constructs that are rewritten for the engine: recursion, rows as values, functions that give rows,
-- frames of intervals, formats. One query a line, each answered alike by PostgreSQL and by the engine.
with recursive r(n) as (values (1) union all select n + 1 from r where n < 10) select sum(n), count(*) from r
with recursive r as (select id, name, array[id] as path, 1 as depth from u where a is null union all select x.id, x.name, r.path || x.id, r.depth + 1 from u x join r on x.id = r.id - 1 where r.depth < 9) select * from r order by path
with recursive r(a) as (select 42 union select t.id from t join r on t.a = r.a) select * from r order by a
with recursive e(a, b) as (values (1, 2), (2, 3), (3, 4), (1, 3)), r as (select a, b from e union select r.a, e.b from r join e on r.b = e.a) select * from r order by a, b
with recursive r as (select 1::bigint as n, 1::numeric as f union all select n + 1, f * (n + 1) from r where n < 20) select n, f from r order by n
with recursive r as (select 1 as n, null::text as s union all select n + 1, coalesce(s, '') || n from r where n < 4) select s, n from r where n > 1 order by n
with recursive a as (select 1 as x), r as (select x from a union all select x + 1 from r where x < (select count(*) from u)) select r.x, a.x from r, a order by 1
with recursive r as (select k, x, 1 as lvl from w where x = 1 union all select w.k, w.x, lvl + 1 from w, r where w.k = r.k and w.x > r.x and lvl < 3) select k, max(lvl), count(*) from r group by k order by k
select id, (with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select max(n) from r) from u order by id
select array(select a from t order by id desc), array(select a from t order by a nulls first, id limit 3), array(select name from u order by length(name) desc nulls last, id offset 1)
select t.id, array(select u.name from u where u.a = t.a order by u.id desc) from t order by 1
select id, x, x ->> 'k', x -> 0 from t, jsonb_array_elements(j) x where jsonb_typeof(j) = 'array' order by id
select e.key, e.value from t, jsonb_each(j) e where false
select o || '!' from t, jsonb_object_keys(j) o where jsonb_typeof(j) = 'object' order by 1
select g, g + 1, upper(s) from generate_series(1, 2) g, unnest(array['a', 'b']) s order by 1, 3
select sum(a) over (order by ts range between interval '30 days' preceding and current row), count(*) over (order by ts desc range between interval '366 days' preceding and interval '1 day 02:00:00.5' following) from t where id <> 4
select id, sum(s) over (order by d range between interval '1 month' preceding and interval '1 month' following), count(*) over (order by d desc range between current row and interval '40 days' following) from t order by id
select id, count(*) over (order by tz range between interval '90 minutes' preceding and interval '48:00:00' following) from t order by id
select k, x, sum(z) from w group by cube(k, x) having grouping(k, x) in (1, 3) order by k, sum(x)
select k, count(*), grouping(k) from w group by rollup(k) having grouping(k) = 0 or count(*) > 5 order by 1, 2
select count(distinct (k, x)), count((k, x)) from w
select id, (a, b) is distinct from (10, 'apple'), (a, id) is not distinct from (null, 3) from t order by id
select to_jsonb(u), row_to_json(u), row_to_json(row(id, name, amount)) from u order by id
select json_agg(u order by id), jsonb_agg(u order by id desc), json_agg(row_to_json(u) order by u.id) from u
select k, json_agg(q order by x) from (select k, x, y from w where k is not null) q group by k order by k
select to_jsonb(q) ->> 'name', to_json(q.*) from (select id, name from u where id < 3) q order by 1
select u.id, s.doc from u cross join lateral (select jsonb_agg(w order by z) as doc from w where w.x = u.id) s order by 1
select quote_ident(b), quote_ident(v), quote_literal(b), quote_literal(a), quote_nullable(b), quote_nullable(d), quote_ident('select'), quote_ident('Abc'), quote_ident('a_1'), quote_ident('a"b'), quote_literal('a\b''c') from t order by id
select format('%s-%I-%L-%%', b, coalesce(v, 'Zz'), d), format('%2$s %1$s %s', a, b, c), format('%-7s|%7s|', a, b), format('plain'), format('%L %s', null, null) from t order by id
select date_trunc('hour', tz), date_trunc('minute', tz), date_trunc('day', tz), date_trunc('hour', tz, 'Asia/Kolkata'), date_trunc('milliseconds', tz) from t order by id
select (j -> 'a')::int, (j -> 'a')::float8, (j -> 'cc' -> 0)::bigint, (j -> 'cc' -> 1)::smallint, (j -> 'a')::real from t where id = 1
select x::int, x::float8, x::float4, x::bigint from (values ('2.5'::jsonb), ('-2.5'), ('0'), ('12'), (null)) v(x)
select to_char(ts, 'YYYY-MM-DD"T"HH24:MI:SS.MS'), to_char(ts, 'FMDay, DDth FMMonth YYYY'), to_char(ts, 'IYYY-"W"IW-ID'), to_char(ts, 'HH12:MI:SS am A.M. p.m.'), to_char(ts, 'DDD J WW W CC Q'), to_char(ts, 'Y,YYY RM rm FMRM MON mon Mon'), to_char(ts, 'DDTH FMDDth MMth') from t order by id
select to_char(ts, 'SSSS SSSSS FF1 FF3 FF6 ff4'), to_char(ts, 'YYY YY Y IYY IY I IDDD'), to_char(ts, 'AD bc A.D. b.c.'), to_char(ts, 'TZ|OF|TZH|TZM|tz'), to_char(ts, 'FMMI FMSS FMMS FMUS FMHH24 FMDDD FMYYYY'), to_char(ts, 'hello wOrld at day'), to_char(ts, 'Month|MONTH|month|Day|DAY|dy') from t order by id
select to_char(tz, 'YYYY-MM-DD HH24:MI:SS TZ OF tz'), to_char(tz, 'TZH:TZM'), to_char(d, 'DD Mon YYYY'), to_char(tz, 'DD.MM.YY') from t order by id
select to_char(interval '1 day 02:03:04.5', 'DD HH24:MI:SS.MS'), to_char(interval '15h 2m 12s', 'HH24:MI:SS'), to_char(interval '-3 days -04:05:06', 'DD HH24:MI:SS'), to_char(interval '14 mons', 'YYYY MM'), to_char(interval '100:00:00', 'FMHH24 MI'), to_char(null::interval, 'DD')
select to_char(x, 'YYYY|MM|DD|HH24|MI|SS|MS|US|FMDD|FMHH24') from (values (interval '-3 days -04:05:06.007'), ('14 mons -1 day'), ('-400 days'), ('00:00:00.5'), (null)) v(x)
select to_timestamp('05 Dec 2000', 'DD Mon YYYY'), to_date('2024-060', 'YYYY-DDD'), to_timestamp('2024-01-02 03:04:05.678', 'YYYY-MM-DD HH24:MI:SS.MS'), to_date('Friday 15 March 2024', 'Day DD Month YYYY'), to_timestamp('2024-03-10T02:30:00', 'YYYY-MM-DD"T"HH24:MI:SS'), to_timestamp('15/03/24', 'DD/MM/YY'), to_timestamp('3/7/1999 1:05 pm', 'MM/DD/YYYY HH:MI AM'), to_date('5 feb 70', 'DD MON YY'), to_date('69', 'YY'), to_timestamp('12:00 AM 2024', 'HH12:MI AM YYYY')
select jsonb_typeof(x), length(x ->> 'a'), length(x::text), x -> 'b' from (select jsonb_build_object('a', repeat('ab\"', 20000), 'b', 1) as x union all select jsonb_build_object('a', repeat('x', 200000), 'b', 2)) q order by 2
select x::jsonb, x::jsonb -> 'a', x::jsonb ->> 'b"', jsonb_array_length(x::jsonb -> 'c') from (values ('{"a": "q\\", "b\"": "\\\"", "c": ["\\\\", "\"", "", "a\\\"b"]}')) v(x)
select generate_series(1, 3) as g, unnest(array['a','b'])
select id, (regexp_matches(b, '[aeiou]', 'g'))[1] from t order by 1, 2
select id, unnest(arr) * 2 as x, unnest(tarr) || '!' from t order by 1, 2, 3
select t.id, q.* from t, rows from (generate_series(1, 2), unnest(t.tarr)) with ordinality as q(a, b, n) order by 1, 4
select t.id, x.a, x.b from t, unnest(t.arr, t.tarr) x(a, b) order by 1, 2, 3
select u.id, s.x from u, lateral (select upper(unnest(string_to_array(u.name, 'e'))) as x) s order by 1, 2
select percentile_cont(array[0.25, 0.5, 0.75]) within group (order by y), percentile_disc(array[0, 0.5, 1]) within group (order by k), percentile_cont(array[0.5, null]) within group (order by x) from w
select k, percentile_cont(array[0.1, 0.9]) within group (order by x desc) filter (where x < 8) from w group by k order by k
select k, x, count(*) filter (where x > 2) over (partition by k), count(*) filter (where z is null) over () from w
select f < 1e300, f > -1e300, 1e300::float8, f + 1e300, r < 1e20 from t order by id
select id, arr from t order by arr desc, id
select id, tarr from t order by tarr nulls first, id limit 4
select arr from t union select array[1, 5] order by 1
select x from (values (array[1, null]), (array[1, 2]), (array[1]), ('{}'), (null), (array[null, 1]::int[]), (array[1, 2, 3])) v(x) order by x
select id, j from t order by j desc nulls last, id limit 5
select a.id, b.id, a.j < b.j, a.j >= b.j from t a, t b order by 1, 2
select x, row_number() over (order by x desc) from unnest(array['1','-1','-1.5','10','9','0.5','0','2.5','"a"','"ab"','"b"','""','null','true','false','[]','[1]','[1,2]','[[]]','[{}]','{}','{"a":1}','{"b":0}','{"a":1,"b":2}','{"aa":1}','["\u00e9\n"]','["a"]']::jsonb[]) x order by x
select jsonb_agg(distinct x), array_agg(distinct x order by x desc), count(*) from (values ('1'::jsonb), ('1.0'), ('[2]'), (null), ('{}')) v(x)
select j -> 'a', b is null, count(*) from t group by grouping sets ((j -> 'a'), (b is null), ()) order by 3, 2, 1
select j['a'], j['cc'][1], j[0], j['b']['k'] from t order by id
select id, jsonb_path_query_array(j, '$.*') from t where j @? '$.a' or j @@ '$[*] == 1' order by id
select t.id, q from t, jsonb_path_query(j, '$.cc[*] ? (@ > 1)') q order by 1
select * from jsonb_to_record('{"a": 1, "b": "foo", "c": [1, null], "e": {"x": 1}, "f": null, "g": "2024-01-02"}') as x(a int, b text, c int[], d text, e jsonb, f jsonb, g date, "B" bool)
select x.* from json_to_recordset('[{"a": 1, "b": [1, 2] }, {"a": "2", "a": "3", "c": 1.50}, {}]') as x(a int, b json, c numeric) order by a
select t.id, x.a, x.b from t, jsonb_to_record(case when jsonb_typeof(j) = 'object' then j end) x(a text, b text) order by 1
with recursive e(a, b) as (values (1, 2), (2, 3), (3, 1), (3, 4)), r(x) as (select 1 union select b from r join e on a = x) select * from r order by 1
with recursive r(n, s) as (select 1, null::text union select case when n > 3 then 1 else n + 1 end, 'x' from r) select n, s from r order by 1, 2
select id from u order by id limit 3 - 1 offset 1 * 2
select arr < array[2], arr >= '{1,2,3}', tarr > array['a'] from t order by id
select to_jsonb(f), jsonb_build_array(r, 1e20::float8, 1.5e-7::float8, 'NaN'::float8) from t order by id
select id, array_agg(name) over (order by id), string_agg(name, ',') over (order by id rows between 1 preceding and current row), jsonb_agg(a) filter (where a > 0) over (order by id), array_agg(a) filter (where a > 99) over () from u order by id
select k, x, array_agg(x) over (partition by k order by x), json_object_agg(x, y) filter (where x is not null) over (partition by k order by x) from w order by k, x
select b ~ null, j @> null, j @? null, date_trunc(null, ts), regexp_replace(b, null, 'x') from t where id < 3
select id, sum(id) over (order by a groups between 1 preceding and current row), count(*) over (partition by bl order by b desc nulls last groups between 1 preceding and 1 following), max(b) over (order by d groups unbounded preceding) from t order by id
select * from (select id, first_value(id) over (order by a, id groups between 1 following and 2 following) as f from t where id > 1) q where f > 1 order by f desc, id limit 3
select distinct count(*) over (order by k groups between 1 preceding and current row exclude no others) from w
select t.id, u.id, sum(u.id) over (order by t.b groups 1 preceding) from t join u on u.a = t.a where t.id > 0 order by t.c, 1, 2
select rank(10) within group (order by a), dense_rank(10) within group (order by a desc), percent_rank(10) within group (order by a nulls first), cume_dist(10) within group (order by a desc nulls last) from t
select k, rank(2.5) within group (order by x), dense_rank('b', 1) within group (order by y::text desc, x), cume_dist(null) within group (order by x), percent_rank(1) within group (order by x) filter (where x > 100) from w group by k order by k
select rank('apple') within group (order by b), dense_rank('2024-01-01') within group (order by d), rank(1.5) within group (order by n desc), rank('1 mon') within group (order by i) from t having count(*) > 0
select id, j @> (select max(j::text)::jsonb from t x where x.id = t.id), jsonb_build_object('a', id) <@ j, j @> jsonb_build_array(id), x.v from t, (select to_jsonb(1) as v) x order by id
select a.id, b.id from t a, t b where a.j @> b.j order by 1, 2
select b ~ any(array['^a', 'e$']), b !~* all(array['^A', 'x']), b ~* any(array['^B']) from t order by id
select substring(b similar '%#"p_#"%' escape '#'), substring(b from 'a#"%#"e' for '#'), regexp_substr(b, '[a-z]', 2, id), regexp_instr(b, 'p(.)', 1, 1, 1, '', 1) from t order by id
select format('%*s|%-*s|%*s', id, b, 4, 'x', -id, v), format('%2$*1$s', 6, b) from t order by id
select normalize(b, nfd) = b, b is normalized, b is not nfd normalized, octet_length(normalize(b, nfkd)), unistr('d\0061t\+000061') from t order by id
select string_to_table(b, 'p', ''), id from t where id < 3 order by 2, 1
select jsonb_set_lax(j, '{a}', null), jsonb_set_lax(j, '{a}', to_jsonb(a), true, 'delete_key'), jsonb_set_lax(j, '{a}', null, false, 'return_target') from t where id in (1, 2) order by id
select interval '1-2' year to month, interval '3 4:05' day to minute, interval '10:20' minute to second, interval '5' hour to second, interval '2 10' day to hour, interval '1:2:3.5' hour to second
select '1999.008'::date, 'J2451187'::date, '990108'::date, 'Jan-08-1999'::date, 'January 8, 99 BC'::date, '0405'::time, 'allballs'::time, '1999-07-08 04:05:06 CET'::timestamptz, '1999-01-08 04:05:06 PST'::timestamptz, '20240131T0405'::timestamp, 'P0001-02-03T04:05:06'::interval
select ts at time zone 'CET', tz at time zone 'PST', timezone('ist', tz) from t order by id
select pg_typeof(a), pg_typeof(j)::text, pg_typeof(arr) = 'integer[]'::regtype, pg_typeof(c)::oid, pg_typeof(pg_typeof(b)), 1043::regtype, '25'::regtype from t order by id
select pg_typeof(a), count(*) from t group by 1
select localtime is not null, clock_timestamp() >= now(), statement_timestamp() >= transaction_timestamp(), length(timeofday()) > 30
-- Rows come in the order of a subquery, and as VALUES and functions make them; aggregates and LIMIT keep to it.
select json_agg(x) from (select id, name from u order by id desc) x
select array_agg(id) from (select id from t order by a desc nulls last, id) x
select array_agg(id), string_agg(b, ','), jsonb_agg(b), json_agg(b) from (select id, b from t order by id desc limit 3) x
select json_object_agg(id, b), jsonb_object_agg(id, b) from (select id, b from t order by id desc) x
select k, array_agg(z) from (select k, x, z from w order by z desc) q where x > 0 group by k order by k
with q as (select id, name from u order by name desc nulls last, id) select array_agg(name), json_agg(q) from q
with q(i, n) as (select id, name from u order by amount, id) select array_agg(i) from q where i > 1
select array_agg(id order by id) filter (where id > 1), array_agg(id) filter (where id > 1) from (select id from u order by id desc) x
select array_agg(distinct id) from (select id from u order by id desc) x
select array_agg(n) from (select name as n from (select name from u order by id desc) y) x
select * from (select id, name from u order by id desc) x limit 2
select name from (select id, name from u order by id desc) x order by id limit 2
select name from (select name from u order by id desc) x limit 2 offset 1
select * from (select id, name from u order by id desc) x where id > 1 limit 2
select x.* from (select * from (values (3, 'c'), (1, 'a'), (2, 'b')) v(a, b)) x limit 2
select array_agg(v), string_agg(v::text, ',') from unnest(array[3, 1, 2]) v
select array_agg(g) from generate_series(5, 1, -2) g
select string_agg(w, ' ') from regexp_split_to_table('the quick brown fox', ' ') w
select array_agg(x) from (values (3), (1), (2)) v(x)
select array_agg(x) from (values (3), (1), (1 + 1)) v(x)
select * from unnest(array[3, 1, 2]) limit 2
values (3), (1), (2) limit 2
select t.id, array_agg(e) from t, unnest(array[t.id + 3, t.id, t.id + 1]) e group by t.id order by 1
select t.id, string_agg(e, '-') from t cross join lateral unnest(string_to_array('z y x', ' ')) e group by t.id order by 1
select array(select x from (select id as x from u order by id desc) q), array(select v from unnest(array[3, 1, 2]) v), array(select * from (values (2), (1)) v limit 1)
select id, (select string_agg(n, ',') from (select w.k::text as n from w where w.x = u.id order by w.z desc) q) from u order by id
select id, (select json_agg(q) from (select w.z, w.k from w where w.x = u.id order by w.z desc, w.k) q) from u order by id
select array_agg(k) from (select k, count(*) from w where k is not null group by k order by count(*) desc, k desc) q
select array_agg(k) from (select k from w where k is not null group by k order by sum(z), k desc) q
select array_agg(k) from (select distinct on (k) k, z from w where k is not null order by k desc, z) q
select array_agg(k) from (select distinct k from w where k is not null order by k desc) q
select array_agg(a) from (select id as a from u union all select id from t order by a desc) q
select array_agg(ord) from (select * from unnest(array['b', 'a']) with ordinality as f(e, ord)) q
select array_agg(e) from jsonb_array_elements_text('["z", "a", "m"]') e
select json_agg(e) from jsonb_array_elements('[3, 1, 2]') e
select key from (select key from json_each_text('{"b": 1, "a": 2}')) q limit 1
select unnest(array[3, 1, 2]) limit 2
select array_agg(v) from (select unnest(array[3, 1, 2]) as v) q
select array_agg(j) from (select j from (values ('{"a": 2}'::jsonb), ('{"a": 1}'), ('[]')) v(j) order by j desc) q
select array_agg(i::text) from (select i from (values (interval '1 day'), ('23 hours'), ('2 days')) v(i) order by i desc) q
select sum(id), count(*) from (select id from u order by name) q
select a.id from (select id from u order by id desc) a join (select id from u) b using (id) order by 1
select string_agg(x::text, ',') from (select id as x from u order by id desc fetch first 2 rows with ties) q
select array_agg(row_number) from (select row_number() over (order by id desc), id from u order by id) q
-- intervals that are equal
select extract(epoch from i) as e, count(*), min(x), grouping(i), grouping(g, i) from spans group by rollup (i, g) order by 1, 2, 3, 4, 5
select i, sum(x) from spans where g = 'b' group by i having i > interval '-2 mons' or i is null order by i
select extract(epoch from i) from ((select i from spans union select interval '2 years') except select interval '30 days' intersect select i from spans) q
select extract(epoch from i) from (select i from spans where g <> 'b' intersect all (select interval '30 days' union all select interval '1 mon')) q
select extract(epoch from i) from (select distinct i from spans) q
select distinct on (i) id, extract(epoch from i) from spans order by i, id
select g, avg(i), sum(i), extract(epoch from min(i)), count(distinct i), count(distinct (i, x)), array_length(array_agg(distinct i), 1), extract(epoch from mode() within group (order by i)) from spans group by g
select avg(v), sum(v) from (values (interval '1 year 1 mon 1 day'), ('-5 mon 7 day 13:14:15.1616'), (null)) q(v)
select id, avg(i) over (order by id rows 2 preceding), extract(epoch from max(i) over (partition by g)), greatest(i, '5 days'), least('-3 days', i, null) from spans
select array_agg(distinct i), jsonb_agg(distinct i), min(distinct i), max(distinct i) from spans where g = 'b'
select a = b, a <@ b, a && b, array_position(a, '30 days'), array_positions(a, '720:00'), array_remove(a, '30 days'), array_replace(a, '30 days', '1 day') from (select array[interval '1 mon'] as a, array[interval '30 days'] as b) q
select count(*) from spans group by array[i], x
select array['1.0'::jsonb] = array['1'::jsonb], array['1.0'::jsonb] @> array['1'::jsonb], array_position(array['1.0'::jsonb], '1'), array['ab'::char(3)] = array['ab'::char(5)]
-- EXCLUDE
select id, g, count(*) over w, sum(id) over w, min(id) over w, max(id) over w, avg(id) over w from (select id, id % 3 as g from t) q window w as (order by g range unbounded preceding exclude group) order by id
select id, g, count(*) over w, sum(id) over w, bool_and(id > 2) over w, every(id > 1) over w from (select id, id % 3 as g from t) q window w as (order by g desc groups between 1 preceding and 1 following exclude ties) order by id
select id, count(*) filter (where id > 3) over w, sum(c) over w, sum(n) over w, avg(c) over w, avg(n) over w from t window w as (order by a nulls first range unbounded preceding exclude current row) order by id
select id, g, count(*) over w, sum(id) over w from (select id, id % 3 as g from t) q window w as (order by g groups between 1 following and 2 following exclude group) order by id
select id, count(*) over (range between unbounded preceding and unbounded following exclude group), sum(id) over (range between unbounded preceding and unbounded following exclude ties), sum(id) over (range between unbounded preceding and unbounded following exclude current row) from t order by id
select id, array_agg(id) over w, string_agg(b, '+') over w, first_value(id) over w, last_value(b) over w, sum(i) over w, min(i) over w, row_number() over w from t window w as (order by id rows between 2 preceding and 2 following exclude current row) order by id
select id, first_value(id) over w, last_value(id) over w, bool_or(id > 5) over w from t window w as (order by id groups between 1 preceding and 1 following exclude group) order by id
select id, sum(id) over (order by id rows between 3 preceding and 2 preceding exclude current row), sum(id) over (order by id rows between 0 preceding and 0 following exclude current row), count(*) over (order by id rows current row exclude current row) from t order by id
select id, sum(id) over (order by i range current row exclude ties), count(*) over (order by i desc range unbounded preceding exclude current row), sum(id) over (partition by i order by id rows between unbounded preceding and unbounded following exclude current row) from spans order by id
select a, sum(count(*)) over (order by a rows unbounded preceding exclude current row) from t group by a order by a
select id, row_number() over (), lag(id) over (), ntile(2) over () from (select id from u order by id desc) x
select v, row_number() over () from unnest(array[3, 1, 2]) v
select v, row_number() over (partition by v > 1) from unnest(array[3, 1, 2]) v order by v
select row_number() over (), count(*), array_agg(id) from (select id from u order by id desc) x
select rank() over (), row_number() over (order by id), id from (select id from u order by id desc) x
select (case when id = 3 then tz end) at time zone b from t order by id
select now() at time zone 'europe/berlin' = now() at time zone 'Europe/Berlin'
-- Rows as values
select t, row(t.*, 'x y', null, ''), (t).ch from t order by id
select w, (w).x, (w).*, row(), row(1, row(2, 'a b')), row(w.k, null)::text from w order by x, k
select id, (u.*) is null, (u.*) is not null, u is null, u.* is not null, u::text, cast(u as varchar(5)) from u order by id
select u.id, w, count(w) over (), w = w, w is distinct from w, (w).k, w is null from u left join (select k, x, y, coalesce(z, 0) as zz from w) w on w.x = u.id order by 1, zz
select u.id, count(w), count(distinct w), count(w.*) from u left join (select k, x, y, coalesce(z, 0) as zz from w) w on w.x = u.id group by u.id order by 1
select u.id, row_to_json(x), to_jsonb(x) from u left join (select id, b from t) x on x.id = u.id order by 1
select p.x, q.x, p < q, p > q, p <= q, p = q, p <> q, p is distinct from q from w p, w q order by 1, 2, p.k, q.k
select u = row(1, 10, 'one'::text, 10.5::numeric), u in (row(1, 10, 'one'::text, 10.5::numeric), row(2, 10, 'two'::text, 20.25::numeric)) from u order by id
select row(1, 2) = null, row(1, null) = row(1, null), row(1, null) is null, row(null, null) is null, row() is null, row(row(null)) is null, (row(1, 2)).f2
select x, x::text, q, (select v from u v where v.id = q.id limit 1), case when id > 2 then x end from (select u as x, id from u) q order by id
select k, row(k, count(*), max(y)) from w group by k order by k
select e, (e).key, (e).* from jsonb_each('{"a": 1, "b": "x y"}') e
select (a, id) = (select a, id from u v where v.id = 1), (a, id) < (select 10, 2), (a, id) >= (select max(a), max(id) from u v where v.id <= u.id) from u order by id
select k, x, rank(x) within group (order by z) from w group by k, x order by k, x
-- JSON as rows of a relation, and relations by name
select * from jsonb_populate_record(null::u, '{"id": 1, "name": "x", "amount": "2.50", "zz": 1}')
select t.id, x, x.* from t, jsonb_populate_record(null::u, case when jsonb_typeof(t.j) = 'object' then t.j end) x order by 1
select (jsonb_populate_record(u, '{"name": "new", "amount": null}')).*, jsonb_populate_record(u, null), jsonb_populate_record(null::u, null) from u order by 1
select * from json_populate_recordset(null::public.u, '[{"id": 1}, {"id": 2, "name": {"a":  1}, "amount": 7}]') as q(p, r)
select null::u, null::u is null, (null::u).id, cast(null as u)
select 'u'::regclass, 'public.u'::regclass::text, cast('u' as regclass), regclass 'u', to_regclass('nope'), 'u'::regclass::oid = 'u'::regclass, to_regclass('u')::text || '!' from u
-- Queries as arguments of functions
select id, jsonb_build_object('a', (select max(x) from w where w.x = u.id), 'n', (select name from u v where v.id = u.id)), upper((select name from u v where v.id = u.id)) from u order by id
select upper((select name from u where id = 1)), length((select name from u where id = 99)), (select max(x) from w) = any(array[8, 9])
select id, array_length(array(select x from w where w.x > u.id order by x), 1), array_to_string(array(select k from w where w.x > u.id order by x), ',') from u order by id
select id, (select j from t where t.id = u.id) -> 'a', (select arr from t where t.id = u.id)[1], row((select name from u v where v.id = u.id)) from u order by id
select distinct upper((select name from u v where v.id = u.id)) from u union all select upper((select name from u v where v.id = u.id)) from u order by 1
select id, upper((select name from u v where v.a = u.a)), count(*) over () from u where id = 3 and array_length(array(select x from w where w.x > u.id), 1) > 2 order by upper((select name from u v where v.id = u.id))
-- digits of seconds, offsets
select '1 year 2 mons 3 days 04:05:06.789'::interval(0), interval(2) '1.235 s', cast('1.005 sec' as interval(2)), '-1.235 s'::interval(2)
select i::interval(0), (i * 1.2345678)::interval(3), i::time(2), (ts::text)::timestamp(0), (tz::text)::timestamptz(2) from t
select tm::time(0), (tm::text)::time(2), tm::interval(0), ts::time(0) from t where id in (1, 5)
select timestamptz '2024-07-01 12:00+00' at time zone interval '-3:30', timestamp 'infinity' at time zone interval '1:00', tz at time zone (interval '1 hour' * id), ts at time zone interval '-00:00:01.9' from t
select to_char(i, 'HH12 HH'), to_char(i, 'FMHH12:MI'), justify_interval(i), -i, i + i, i - interval '1 mon', i * -1.7 from t
select 'k' as k, count(*) from t group by 1
select 'k' as k, count(*) from t where false group by 1
select 'k' as k, 1 as n, count(*) from t where false group by k, n
select '' as k, a % 2 as m, count(*) from t group by 1, 2 order by 2
select percentile_cont(0.5) within group (order by i), percentile_cont(array[0, 0.25, 0.7, 1, null]) within group (order by i desc), percentile_cont(0.5) within group (order by i) filter (where id > 100) from t
select (a, b), u.id from t left join u using (a) order by (a, b), u.id
select t from t order by t
select (a, n) from t order by (a, n) desc
select (arr, j) from t where id < 6 order by (j, arr)
select w, k from w order by w.* desc, k
select distinct (k, x > 2) from w order by 1
select distinct on ((k, x > 2)) k, x, y from w order by (k, x > 2), y
select w, count(*) from w group by w
select i, count(*) from spans group by (i, x), i order by (x, i), 2
select (k, x) from w union select (name, a) from u
select (k, x) from w except select (b, a) from t
select k, rank() over (order by (k, y)), count(*) over (partition by (k, x > 2)), row_number() over (partition by (n, 1) order by x) from w cross join (values (1.0), (1.00)) v(n) order by 1, 2, 3, 4
select string_agg(x::text, ',' order by (k, y) desc) from w
select v.x from u left join (values (1, 'a'), (2, 'b')) v(x, y) on v.x = u.id order by (v.x, v.y) nulls first
select (u.*)::text, (select w from w order by z limit 1)::text from u order by 1
select id from t order by id limit (select count(*) / 2 from u) offset (select min(id) from u)
with n as (select 2 as n) select id from t order by id desc limit (select n from n) offset length('abc')
select id from t order by id limit (select null::int) offset (select null::int)
select u.id, (select t.id from t where t.a = u.a order by t.id limit (select 1)) from u order by 1
select distinct on (k) k, x from w order by k, x desc limit (select 2)
select (select max(b) from t where t.a = u.a) as g, count(*), sum(amount) from u group by g order by 1
select coalesce((select max(b) from t where t.a = u.a), 'none') as g, id > 2, count(*) from u group by 1, 2 having count(*) > 0 order by count(*) desc, 1, 2
select (select max(b) from t where t.a = u.a), count(*) from u group by (select max(b) from t where t.a = u.a)
select exists (select 1 from t where t.a = u.a) as has, count(*), sum(count(*)) over () from u group by rollup (has)
select a in (select a from t) as has, count(*) from u group by has
select k, unnest(array_agg(distinct x order by x)) from w group by k order by 1, 2
select k, (unnest(array_agg(x order by x)) + 1) * 2 as y, count(*) from w group by k order by 1, y
select row_number() over (order by id), unnest(arr) from t order by 1, 2
select unnest(arr) as x, count(*), sum(id) from t group by x order by count(*) desc, x
select unnest(tarr), count(*) from t group by unnest(tarr) having count(*) > 0 order by unnest(tarr)
