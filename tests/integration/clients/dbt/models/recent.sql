{{ config(materialized='view') }}
SELECT id, country FROM {{ ref('customers') }} WHERE joined > DATE '2024-01-15'
