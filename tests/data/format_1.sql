-- What the data directory in format_1.tar.gz holds; see README.md beside it.
CREATE TABLE customers (id int NOT NULL, name text, country varchar(2));
CREATE TABLE orders (customer int NOT NULL, amount numeric(10,2), rate numeric);
CREATE TABLE facts (share double precision, at timestamp, seen timestamptz, due date, took interval, tags text[], body jsonb, key uuid, raw bytea);
CREATE VIEW large AS SELECT customer, amount, rate FROM orders WHERE amount > 5;
CREATE INDEX orders_by_customer ON orders (customer);
CREATE INDEX large_by_customer ON large (customer);
CREATE MATERIALIZED VIEW sales AS
    SELECT c.country, count(*) AS orders, sum(o.amount) AS total, avg(o.amount) AS mean, sum(o.rate) AS rates,
        avg(o.rate) AS mean_rate, sum(o.amount) / count(*) AS quotient, max(o.rate) AS highest
    FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.country;
CREATE MATERIALIZED VIEW quotients AS
    SELECT customer, amount / 3 AS third, rate / 7 AS seventh, amount * rate AS product FROM orders;
INSERT INTO customers VALUES (1, 'Ann', 'GB'), (2, 'Bob', 'US'), (3, NULL, NULL);
INSERT INTO orders VALUES (1, 10.50, 0.1), (1, 1, 2.25), (2, 7, 100), (2, 8, 1);
INSERT INTO facts VALUES
    (0.5, '2024-01-02 03:04:05', '2024-01-02 03:04:05+00', '2024-02-03', '1 day', '{a,b}', '{"k": 1.50}',
        '00000000-0000-0000-0000-000000000001', '\x0102'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE orders SET rate = rate + 0.05 WHERE customer = 1;
DELETE FROM orders WHERE amount = 8;
CREATE TABLE copied AS SELECT customer, rate, amount / 3 AS third FROM orders;
CREATE SOURCE ticks FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1 day', MAX CARDINALITY 3);
CREATE SECRET hidden AS 'x';
CREATE ROLE reader LOGIN PASSWORD 'secret';
GRANT SELECT ON sales TO reader;
COMMENT ON TABLE orders IS 'all of them';
