-- The same in the time zone America/New_York.
select tz::text, tz::date, tz::time, tz::timestamp, ts::timestamptz, d::timestamptz, extract(hour from tz), date_trunc('day', tz), to_char(tz, 'YYYY-MM-DD HH24:MI') from t where id <> 4
select tz + interval '1 day', tz + interval '1 month', tz - interval '5 hours', tz at time zone 'UTC', ts at time zone 'UTC', tz > '2024-03-10 02:30', age(tz, timestamptz '2001-01-01') from t where id <> 4
select timestamptz '2024-11-03 01:30', timestamp '2024-11-03 01:30'::timestamptz, timestamp '2024-03-10 02:30'::timestamptz, timestamptz '2024-06-01 12:00+00'
select ts::timestamptz, (ts + interval '1 hour')::timestamptz::text from t where id <> 4
select tz + interval '1 day', tz + interval '1 month', tz - interval '5 hours', tz at time zone 'UTC', ts at time zone 'UTC', tz > '2024-03-10 02:30', age(tz, timestamptz '2001-01-01'), tz + i from t where id <> 4
select * from generate_series(timestamptz '2024-03-08', timestamptz '2024-03-12', interval '1 day')
