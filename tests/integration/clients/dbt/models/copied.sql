{{ config(materialized='table') }}
SELECT id, country FROM {{ ref('customers') }}
