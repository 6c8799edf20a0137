-- Queries over small tables that no view can be made of, or whose views answer in other last digits.
SELECT count(*), now() IS NOT NULL AS n FROM a GROUP BY CUBE(n)
SELECT stddev(x), variance(x), regr_slope(x, y), corr(x, y) FROM f
