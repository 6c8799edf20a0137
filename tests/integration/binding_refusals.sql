-- One query a line, each refused with the SQLSTATE, and at the place, of PostgreSQL.
select nope from t
select t.nope from t
select x.a from t
select a from t, u
select a from nope
select * from t t, u t
select foo(a) from t
select length(a) from t
select a + b from t
select a + 'x' from t
select 'x' + 'y'
select a from t group by b
select a, count(*) from t
select * from t group by a
select sum(count(*)) from t
select a from t where count(*) > 1
select a from t where row_number() over () = 1
select count(*) from t group by count(*)
select a from t order by 5
select a from t group by 3
select a, b from t union select a from t
select a from t union select b from t
select a from t union select d from t
select case when a then 1 else 2 end from t
select a from t where b
select a from t where a
select 1 limit -1
select 'abc'::int
select '2024-13-01'::date
select cast(d as int) from t
select (select a, b from t)
select a from t where a in (select a, b from t)
select distinct a from t order by b
select distinct on (a) a from t order by b
select row_number() from t
select sum(a) over w from t
select lower(distinct b) from t
select lower(b) over () from t
select count() from t
select a[1] from t
select * from t join u using (nope)
select * from t join u using (a) join w using (nope)
select 1 from t where a = any(b)
select coalesce(a, b) from t
select array[a, b] from t
select unnest(a) from t
with x as (select 1), x as (select 2) select * from x
with x(a, b) as (select 1) select * from x
select * from t as q(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
values (1, 2), (3)
values (1), ('x'::text)
select *
select max(j) from t
select extract(foo from ts) from t
select date_trunc('foo', ts) from t
select b ~ '[' from t
select a between 1 and 'x' from t
select a in (1, 'x') from t
select a = b from t
select a = d from t
select not a from t
select a and bl from t
select -b from t
select round(f, 2) from t
select nullif(a, b) from t
select t from nope t
select grouping(a) from t
select a, grouping(b) from t group by a
select 1 from t having a > 1
select sum(a) filter (where count(*) > 1) from t
select 5000000000::int
select 40000::smallint
select 1 order by 2
select a b c from t
select from where
select a from t where a = $1 and
select a < b < a from t
select 1 + from t
select (1, 2) = (1, 2, 3)
select a from t where a + 1
select a from t where (a || b)
select case when b || 'x' then 1 end from t
select 1 || 2
select * from nope.t
select now() at time zone 'Nope/Zone'
select now() at time zone 'Mars'
select row_to_json(1)
select row_to_json(a) from t
with recursive r as (select id from r) select * from r
with recursive r as (select 1 as n union all select count(*) from r) select * from r
with recursive r as (select 1 as n union all select n + 1.5 from r where n < 3) select * from r
with recursive r as (select 1 as n union all select r.n from t left join r on true) select * from r
with recursive r as (select n from r union all select 1) select * from r
with recursive r as (select 1 as n union all select a.n from r a, r b) select * from r
with recursive r as (select 1 as n union all select 2 where exists (select 1 from r)) select * from r
with recursive r as (select 1 as n union all select n, n from r) select * from r
select format('%z', 1)
select format('%s %s', 1)
select sum(a) over (order by d range '-1 day' preceding) from t
select to_char(interval '1 day', 'Day')
select extract(timezone from ts) from t
select * from jsonb_to_record('{}')
select * from generate_series(1, 2) as x(a int)
select j['a'] + 1 from t
select sum(a) over (groups 1 preceding) from t
select sum(a) over (groups unbounded preceding exclude group) from t
select sum(a) over (order by a rows 1 preceding exclude others) from t
select sum(a) over (order by a groups -1 preceding) from t
select rank('x') within group (order by a) from t
select rank(1, 2) within group (order by a) from t
select rank(1) within group (order by j::json) from t
select row_number(1) within group (order by a) from t
select regexp_count(b, 'x', 1, 'g') from t
select format('%1$*0$s', b) from t
select substring(b from 'a#"b#"c#"d' for '#') from t
select b ~ '(' from t
select b ~ 'a)' from t
select b ~ '*a' from t
select b ~ 'a**' from t
select b ~ '(?:+a)' from t
select b ~ 'a{2' from t
select b ~ 'a{2,1}' from t
select b ~ 'a{256}' from t
select b ~ 'a{2x}' from t
select regexp_replace(b, 'a|*b', '') from t
select (row(1, 2)).f3
select (u).nope from u
select (id).x from u
select ('x').y
select row(1, 2)::int
select id, u, count(*) from u group by id
select u = row(1, 10) from u where false is not true
select null::nosuch
select * from jsonb_populate_record(null::nosuch, '{}')
select * from jsonb_populate_record(1, '{}')
select * from jsonb_populate_record(null::u, '{}'::json)
select * from jsonb_populate_record(null::u, '{}') as x(a int)
select 'nope'::regclass from u
select 'a b c'::regclass from u
select (1, 2) = (select 1)
select a, rank(id) within group (order by a) from u group by a
select * from t right join lateral generate_series(0, t.a) g on true
select * from t full join lateral (select t.*) g on true
select count(*) over q from u window q as (), q as ()
select distinct from u
