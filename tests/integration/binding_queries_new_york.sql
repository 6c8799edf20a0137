-- The same in the time zone America/New_York.
select tz::text, tz::date, tz::time, tz::timestamp, ts::timestamptz, d::timestamptz, extract(hour from tz), date_trunc('day', tz), to_char(tz, 'YYYY-MM-DD HH24:MI') from t where id <> 4
select tz + interval '1 day', tz + interval '1 month', tz - interval '5 hours', tz at time zone 'UTC', ts at time zone 'UTC', tz > '2024-03-10 02:30', age(tz, timestamptz '2001-01-01') from t where id <> 4
select timestamptz '2024-11-03 01:30', timestamp '2024-11-03 01:30'::timestamptz, timestamp '2024-03-10 02:30'::timestamptz, timestamptz '2024-06-01 12:00+00'
select ts::timestamptz, (ts + interval '1 hour')::timestamptz::text from t where id <> 4
select tz + interval '1 day', tz + interval '1 month', tz - interval '5 hours', tz at time zone 'UTC', ts at time zone 'UTC', tz > '2024-03-10 02:30', age(tz, timestamptz '2001-01-01'), tz + i from t where id <> 4
select * from generate_series(timestamptz '2024-03-08', timestamptz '2024-03-12', interval '1 day')
select date_trunc('hour', x), date_trunc('minute', x), date_trunc('day', x), date_trunc('hour', x, 'Asia/Kolkata') from (values (timestamptz '2024-11-03 05:10:00+00'), ('2024-11-03 06:10:00+00'), ('2024-11-03 07:10:30.5+00'), ('2024-03-10 06:59:59+00'), ('2024-03-10 07:00:01+00'), ('1850-01-01 00:00:00+00'), ('infinity'), (null)) v(x)
select to_char(x, 'YYYY-MM-DD HH24:MI:SS OF TZH:TZM') from (values (timestamptz '2024-11-03 05:10:00+00'), ('2024-11-03 06:10:00+00'), ('1850-01-01 00:00:00+00'), (null)) v(x)
select to_timestamp('2024-03-10 02:30:00', 'YYYY-MM-DD HH24:MI:SS'), to_timestamp('2024-11-03 01:30', 'YYYY-MM-DD HH24:MI')
select extract(timezone from tz), extract(timezone_hour from tz), extract(timezone_minute from tz), date_part('timezone', tz) from t
