-- Statements made to hold a server, one a line behind its name. Those that are too long to be written
-- down are made by crates/server/tests/attacks/corpus.rs.
cross join counted: SELECT COUNT(*) FROM n x, n y, n z
cross join with sum: SELECT SUM(x.a * y.a + z.a) FROM n x, n y, n z
cross join sent: SELECT x.b, y.b FROM n x, n y WHERE x.a + y.a < 0
cross join of digits: SELECT COUNT(*) FROM e a, e b, e c, e d, e f, e g, e h, e i, e k, e l, e m
sorted cross join: SELECT x.id, y.x FROM n x JOIN e y ORDER BY y.x, x.b, x.a LIMIT 5 OFFSET 500000
sorted by expression: SELECT id FROM n x JOIN e y ON 1 ORDER BY REVERSE(CONCAT(x.b, y.x)), MD5(x.b)
sorted by documents: SELECT CAST(CONCAT('[', x.a, ']') AS JSON) q FROM n x JOIN e y ORDER BY q
distinct of a cross join: SELECT DISTINCT x.a + y.a FROM n x, n y
groups of a cross join: SELECT x.a + y.a s, COUNT(*) FROM n x, n y GROUP BY s
rollup of a cross join: SELECT x.b, y.x, COUNT(*) FROM n x, e y GROUP BY x.b, y.x WITH ROLLUP
windows over a cross join: SELECT x.id, RANK() OVER (ORDER BY x.b, y.x), SUM(x.a) OVER (PARTITION BY y.x) FROM n x, e y ORDER BY MD5(x.b)
moving frames computed again: SELECT SUM(x.a + 0e0) OVER (ORDER BY x.id ROWS BETWEEN 30000 PRECEDING AND CURRENT ROW) FROM n x
range frames: SELECT COUNT(*) OVER (ORDER BY x.d RANGE BETWEEN INTERVAL 9 YEAR PRECEDING AND INTERVAL 9 YEAR FOLLOWING), JSON_ARRAYAGG(x.id) OVER (ORDER BY x.a) FROM n x
hash join with one key: SELECT COUNT(*) FROM n x JOIN n y ON x.id % 2 = y.id % 2 JOIN n z ON z.id % 2 = y.id % 2
inequality join: SELECT COUNT(*) FROM n x JOIN n y ON x.a < y.a JOIN n z ON y.a < z.a
outer join without index: SELECT COUNT(*) FROM n x LEFT JOIN n y ON x.a + y.a = -1 LEFT JOIN n z ON x.b = CONCAT(z.b, 'q')
semijoin by comparison: SELECT COUNT(*) FROM n x WHERE EXISTS (SELECT 1 FROM n y WHERE y.a + x.a = -1)
antijoin: SELECT COUNT(*) FROM n x WHERE x.a NOT IN (SELECT y.a + x.id FROM n y)
correlated scalar: SELECT (SELECT COUNT(*) FROM n y WHERE y.a < x.a) FROM n x ORDER BY 1
all of a subquery: SELECT COUNT(*) FROM n x WHERE x.a + 70000 > ALL (SELECT y.a FROM n y WHERE y.id <> x.id)
recursive numbers: WITH RECURSIVE s (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 100000000) SELECT COUNT(*) FROM s
recursive doubling: WITH RECURSIVE s (x) AS (SELECT 1 UNION ALL SELECT s.x + e.x FROM s, e WHERE s.x < 1000000) SELECT COUNT(*) FROM s
recursive distinct: WITH RECURSIVE s (x) AS (SELECT 1 UNION SELECT (s.x * 7 + e.x) % 10000000 FROM s, e) SELECT COUNT(*) FROM s
recursive text: WITH RECURSIVE s (x) AS (SELECT CAST('a' AS CHAR(60000)) UNION ALL SELECT CONCAT(x, 'a') FROM s WHERE LENGTH(x) < 59999) SELECT MAX(x) FROM s
union of cross joins: SELECT x.a FROM n x, e y UNION SELECT x.a + 1 FROM n x, e y UNION SELECT x.a + 2 FROM n x, e y
except of cross joins: SELECT x.a, y.x FROM n x, e y EXCEPT SELECT x.id, y.x FROM n x, e y
intersect of cross joins: SELECT x.a, y.x FROM n x, e y INTERSECT ALL SELECT x.id, y.x FROM n x, e y
like with many wildcards: SELECT REPEAT('a', 60000000) LIKE CONCAT(REPEAT('%a', 5000), '%b')
like with underscores: SELECT REPEAT('a', 3000000) LIKE CONCAT('%', REPEAT('_', 100000), 'b')
like of each row: SELECT COUNT(*) FROM n x, e y, e z WHERE REPEAT(x.b, 10) LIKE '%a%a%a%a%a%a%b%'
like with a collation: SELECT REPEAT('ä', 20000000) LIKE CONCAT('%', REPEAT('ä', 1000), 'b') COLLATE utf8mb4_unicode_ci
comparison of long texts: SELECT REPEAT('ä', 30000000) = CONCAT(REPEAT('ä', 29999999), 'b')
locate in a long text: SELECT LOCATE(CONCAT(REPEAT('a', 5000), 'b'), REPEAT('a', 20000000))
instr by collation: SELECT INSTR(REPEAT('é', 10000000), CONCAT(REPEAT('e', 1000), 'x'))
replace of each letter: SELECT LENGTH(REPLACE(REPEAT('a', 60000000), 'a', 'a'))
reverse again and again: SELECT LENGTH(REVERSE(REVERSE(REVERSE(REVERSE(REPEAT('ä', 30000000))))))
upper of long text: SELECT LENGTH(UPPER(LOWER(UPPER(LOWER(REPEAT('ß', 30000000))))))
pad to the limit: SELECT LENGTH(LPAD('a', 16000000, 'xyz')) + LENGTH(RPAD('b', 16000000, 'ä'))
unhex of long text: SELECT LENGTH(UNHEX(REPEAT('ab', 30000000)))
find in a long set: SELECT FIND_IN_SET('b', REPEAT('a,', 30000000))
soundex of long text: SELECT SOUNDEX(REPEAT('bcd', 20000000))
digests of long texts: SELECT MD5(REPEAT('a', 60000000)), SHA2(REPEAT('b', 60000000), 512), SHA1(REPEAT('c', 60000000))
ciphers of long texts: SELECT LENGTH(AES_DECRYPT(AES_ENCRYPT(REPEAT('a', 60000000), 'k'), 'k'))
base 64 there and back: SELECT LENGTH(FROM_BASE64(TO_BASE64(REPEAT('a', 40000000))))
weight of a long text: SELECT LENGTH(WEIGHT_STRING(REPEAT('ä', 10000000)))
quote of quotes: SELECT LENGTH(QUOTE(QUOTE(QUOTE(REPEAT('''', 10000000)))))
regex with nested repetition: SELECT REGEXP_LIKE(REPEAT('a', 1000000), '^(a|aa|a*)*$b')
regex backtracking: SELECT COUNT(*) FROM n x, n y WHERE REGEXP_LIKE(CONCAT(REPEAT('a', 28), x.id, y.id), '^(?=(a+)+b)(a+)+\\1$')
regex replacing each letter: SELECT LENGTH(REGEXP_REPLACE(REPEAT('a', 8000000), 'a', 'b'))
regex with growing groups: SELECT LENGTH(REGEXP_REPLACE(REPEAT('a', 4000000), '(a+)', REPEAT('$1', 1000000)))
regex occurrence far away: SELECT REGEXP_INSTR(REPEAT('ab', 8000000), 'a', 1, 7999999)
regex of each row: SELECT COUNT(*) FROM n x, n y WHERE x.b REGEXP '^[a-z]+ [0-9]{9}$' AND y.b REGEXP 'q'
document parsed and searched: SELECT JSON_LENGTH(JSON_SEARCH(CONCAT('[', REPEAT('"aaaa",', 4000000), '"b"]'), 'all', '%a%'))
documents contained: SELECT JSON_CONTAINS(CONCAT('[', REPEAT('1,', 200000), '1]'), CONCAT('[', REPEAT('2,', 200000), '2]'))
documents overlapping: SELECT JSON_OVERLAPS(CONCAT('[', REPEAT('1,', 200000), '1]'), CONCAT('[', REPEAT('2,', 200000), '2]'))
document merged: SELECT JSON_LENGTH(JSON_MERGE_PRESERVE(CONCAT('[', REPEAT('1,', 6000000), '1]'), CONCAT('[', REPEAT('2,', 6000000), '2]')))
document printed: SELECT LENGTH(JSON_PRETTY(CONCAT('[', REPEAT('[1],', 4000000), '1]')))
document by wildcards: SELECT JSON_LENGTH(JSON_EXTRACT(CONCAT('[', REPEAT('[[1]],', 3000000), '1]'), '$**[*]'))
documents gathered: SELECT LENGTH(JSON_ARRAYAGG(x.b)) FROM n x, e y, e z
documents compared: SELECT COUNT(*) FROM j x, j y, n z, n w WHERE x.doc = y.doc AND x.doc <> w.id
group_concat of a cross join: SELECT LENGTH(GROUP_CONCAT(x.b ORDER BY y.x, x.a SEPARATOR '')) FROM n x, e y
distinct group_concat: SELECT LENGTH(GROUP_CONCAT(DISTINCT x.b, y.x)) FROM n x, e y
count distinct: SELECT COUNT(DISTINCT x.b, y.b) FROM n x, n y
random numbers: SELECT MAX(RAND() + RAND(x.id)) FROM n x, n y
dates of a cross join: SELECT MAX(DATE_ADD(x.d, INTERVAL y.id DAY)), MIN(DATE_FORMAT(x.d, '%W %M %Y')) FROM n x, n y
dates parsed: SELECT COUNT(STR_TO_DATE(CONCAT(x.id, ' January 2020'), '%e %M %Y')) FROM n x, n y
long date formats: SELECT LENGTH(DATE_FORMAT(NOW(), REPEAT('%W', 10000000))), LENGTH(TIME_FORMAT('10:00', REPEAT('%r', 10000000)))
time zones converted: SELECT MAX(CONVERT_TZ(x.d, '+00:00', '+02:00')) FROM n x, n y
decimals divided: SELECT SUM(1.0000000001 / (x.id + 0.3) / (y.id + 0.7)) FROM n x, n y
warnings by the million: SELECT SUM(CONCAT(x.b, 'x') + CAST('abc' AS SIGNED)) FROM n x, n y
cast with long warnings: SELECT MAX(CAST(REPEAT('a', 1000000) AS CHAR(1))) FROM n
sleep of each row: SELECT SLEEP(0.01) FROM n
sleep for long: SELECT SLEEP(10000)
locks by name: SELECT GET_LOCK(CONCAT('l', x.id), 0) FROM n x, e y
variable of each row: SELECT MAX(@v := CONCAT(COALESCE(@v, ''), 'a')) FROM n x, e y
views of the catalog joined: SELECT COUNT(*) FROM information_schema.COLUMNS a, information_schema.COLUMNS b, information_schema.COLUMNS c
statistics of the catalog: SELECT COUNT(*) FROM information_schema.TABLES a, information_schema.STATISTICS b, information_schema.COLUMNS c, information_schema.KEYWORDS d
keywords joined: SELECT COUNT(*) FROM information_schema.KEYWORDS a, information_schema.KEYWORDS b, information_schema.KEYWORDS c
update with subqueries: UPDATE n x SET x.b = CONCAT(x.b, (SELECT COUNT(*) FROM e y WHERE y.x < x.a % 10))
update of all rows: UPDATE n x JOIN e y ON x.id % 10 = y.x SET x.b = UPPER(x.b)
delete that finds nothing: DELETE FROM n WHERE b LIKE '%a%a%a%a%a%a%a%q%' OR (SELECT COUNT(*) FROM e x, e y, e z WHERE x.x + y.x > n.a) < 0
delete that cascades: DELETE FROM p WHERE id <= 10
insert of a cross join: INSERT INTO p SELECT 100000 + x.id * 10 + y.x FROM n x, e y
insert that ignores: INSERT IGNORE INTO p SELECT x.id FROM n x, e y
upsert of a cross join: INSERT INTO p SELECT x.id FROM n x, e y ON DUPLICATE KEY UPDATE id = VALUES(id)
rebuild of a table: ALTER TABLE n ADD COLUMN z CHAR(20) DEFAULT 'x' FIRST
index of a table: ALTER TABLE n ADD INDEX (b, a), ADD INDEX (d)
check of a constraint: ALTER TABLE n ADD CHECK (b NOT LIKE '%a%a%a%a%a%a%a%q%')
check of a table: CHECK TABLE n, p, c, j, n, p, c, j, n
analysis of tables: ANALYZE TABLE n, p, c, j, n, p, c, j
table of a cross join: CREATE TABLE made (k INT PRIMARY KEY AUTO_INCREMENT) SELECT x.b, y.b q FROM n x, n y
explained and run: EXPLAIN ANALYZE SELECT COUNT(*) FROM n x, n y WHERE x.a <> y.a
variable set by a query: SET @x = (SELECT SUM(x.a + y.a) FROM n x, n y)
do of a query: DO (SELECT SUM(x.a + y.a) FROM n x, n y)
query into a variable: SELECT SUM(x.a + y.a) INTO @x FROM n x, n y
regex whose automaton thrashes: SELECT REGEXP_LIKE(REPEAT(CONCAT(REPEAT('a', 37), REPEAT('ab', 41), 'b'), 200000), '[ab]*a[ab]{400}c')
regex with a large class: SELECT REGEXP_INSTR(REPEAT('äöü', 5000000), '(\\w{1,300}[^ä]){3}z')
regex with look-ahead in a long text: SELECT REGEXP_LIKE(REPEAT('ab', 4000000), '(?=(a|b)*c)(a|b)*\\1c')
regex with a back-reference in a long text: SELECT REGEXP_INSTR(REPEAT('abcd', 1000000), '(.+)x\\1')
regex with a boundary beside non-ASCII: SELECT REGEXP_LIKE(REPEAT('ä ', 8000000), '\\bq\\b')
regex replacing by groups: SELECT LENGTH(REGEXP_REPLACE(REPEAT('ab', 8000000), '(a)(b)', '$2$1'))
digests again and again: SELECT MAX(SHA2(REPEAT(x.b, 600000), 384)) FROM n x
cyclic redundancy of long texts: SELECT CRC32(REPEAT('a', 60000000)), CRC32(REPEAT('b', 60000000)), CRC32(REPEAT('c', 60000000))
ciphers again and again: SELECT MAX(LENGTH(AES_ENCRYPT(REPEAT(x.b, 600000), 'k'))), MAX(LENGTH(AES_DECRYPT(REPEAT(x.b, 600000), 'k'))) FROM n x
address of many parts: SELECT MAX(INET_ATON(CONCAT(x.id, REPEAT('.1', 30000000)))) FROM n x
deleted rows that a snapshot keeps: SELECT COUNT(*) FROM n x WHERE (SELECT MIN(g.id) FROM g WHERE g.id > x.a) IS NOT NULL
deleted rows backwards: SELECT COUNT(*) FROM n x WHERE (SELECT g.id FROM g WHERE g.id > x.a ORDER BY g.id DESC LIMIT 1) IS NOT NULL
deleted rows locked: SELECT COUNT(*) FROM n x WHERE (SELECT MIN(g.id) FROM g WHERE g.id > x.a) IS NOT NULL FOR UPDATE
deleted rows sampled: ANALYZE TABLE g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g
