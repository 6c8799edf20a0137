{{ config(materialized='materialized_view', indexes=[{'columns': ['country']}]) }}
SELECT country, count(*) AS n FROM {{ ref('customers') }} GROUP BY country
