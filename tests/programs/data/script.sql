CREATE TABLE measurement (id INTEGER PRIMARY KEY, name TEXT, value REAL);
WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 5000)
INSERT INTO measurement SELECT n, 'item ' || (n % 17), n * 0.37 - n % 11 FROM counter;
CREATE INDEX by_name ON measurement (name, value);
SELECT name, count(*), sum(value), avg(value), min(value), max(value) FROM measurement GROUP BY name ORDER BY name;
SELECT a.id, b.id FROM measurement a JOIN measurement b ON b.id = a.id + 17 WHERE a.name = 'item 3' ORDER BY a.value DESC LIMIT 5;
BEGIN;
UPDATE measurement SET value = value * 2 WHERE id % 2 = 0;
DELETE FROM measurement WHERE value < 0;
ROLLBACK;
BEGIN;
DELETE FROM measurement WHERE id > 4000;
COMMIT;
SELECT total(value), count(DISTINCT name), group_concat(DISTINCT substr(name, 6)) FROM measurement;
SELECT round(abs(-2.5), 1), upper('text'), hex('text'), 7 / 2, 7 / 2.0, 1e100, typeof(1.0), printf('%.12g', 1.0 / 3);
SELECT * FROM missing;
PRAGMA integrity_check;
