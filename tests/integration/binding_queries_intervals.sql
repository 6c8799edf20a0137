-- The same in every style of intervals.
select i, i::text, i::varchar(12), array[i, null], array[i]::text from t
select x, x::text from (values (interval '0'), ('1 year'), ('-1 year'), ('1 mon'), ('-1 mon'), ('1 year -1 mon'), ('25 mons'), ('-25 mons'), ('1 day'), ('-1 day'), ('2 days'), ('-3 days -12 hours'), ('1 sec'), ('-1 sec'), ('1.5 secs'), ('-0.000001 secs'), ('59.999999 secs'), ('1 min'), ('-1 min'), ('01:02:03.04'), ('-01:02:03.04'), ('100:00:00'), (null)) v(x)
select x, x::text from (values (interval '1 mon -1 day'), ('-1 mon +1 day'), ('1 mon 1 sec'), ('-1 mon -1 day -00:00:01'), ('-1 mon +1 day -00:00:01'), ('1 day -00:00:01'), ('-1 day +00:00:01'), ('-1 day +01:00:01'), ('1 year 2 mons 3 days 04:05:06.7'), ('-1 year -2 mons -3 days -04:05:06.7'), ('-1 year -2 mons +3 days +04:05:06.7'), ('1 year 2 mons -3 days 04:05:06.7'), ('178956970 years 7 mons'), ('-178956970 years -8 mons'), ('2147483647 days'), ('-2147483648 days'), ('-2147483648 days +00:00:01')) v(x)
select 'it took ' || i, i || ' or so', concat(i, '|', i), concat_ws(', ', i, id), format('%s and %L', i, i), quote_literal(i) from t
select string_agg(i::text, ';' order by id), array_agg(i order by id)::text, array_to_string(array_agg(i order by id), ';', 'none') from t
select to_json(i), to_jsonb(i), json_build_object('i', i), jsonb_build_array(i, id), json_build_array(array[i]), row_to_json(row(i)), row(i, id)::text from t
select json_agg(i order by id), jsonb_agg(i order by id), json_object_agg(id, i order by id) from t
select jsonb_object_agg(i, id) from t where i is not null
select i::text = '00:00:00', length(i::text), upper(i::text) from t
select ts - ts, (ts - interval '1 day' - ts)::text, age(ts, ts - interval '1 month 3 hours')::text, justify_hours(i * 3)::text from t where id <> 4
select i::text::varchar, coalesce(i::text, 'none'), case when id > 2 then i::text else b end from t
select interval '1-2', interval '3 4:05:06', interval 'P1Y2M-3DT4H', interval '@ 1 day 2 hours ago', interval '-1 mons +2 days -3:00', '1:30'::interval::text
