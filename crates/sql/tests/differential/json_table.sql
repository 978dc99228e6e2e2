-- JSON_TABLE where both agree.
CREATE TABLE d (id INT PRIMARY KEY, j TEXT)
INSERT INTO d VALUES (1, '[1,3,5]'), (2, '[2,4]'), (3, '[]'), (4, NULL), (5, '[{"a":1,"b":[1,2]},{"a":"x","b":[]},{"b":[3]}]')
SELECT * FROM JSON_TABLE('[{"a":"3"},{"a":2},{"b":1},{"a":0}]', '$[*]' COLUMNS (id FOR ORDINALITY, v VARCHAR(100) PATH '$.a', e INT EXISTS PATH '$.b')) AS t
SELECT * FROM JSON_TABLE('[{"a":"3"},{"a":2},{"b":1},{"a":0.33}]', '$[*]' COLUMNS (i INT PATH '$.a' DEFAULT '33' ON EMPTY, r DOUBLE PATH '$.a' DEFAULT '33.5' ON EMPTY)) t
SELECT * FROM JSON_TABLE('[{"a":2,"n":[{"l":1},{"l":11}]},{"a":1,"n":[{"l":2}]},{"a":0}]', '$[*]' COLUMNS (id FOR ORDINALITY, a INT PATH '$.a', NESTED PATH '$.n[*]' COLUMNS (n FOR ORDINALITY, l INT PATH '$.l'), NESTED PATH '$.n[*]' COLUMNS (m FOR ORDINALITY, k INT PATH '$.l'))) t
SELECT * FROM JSON_TABLE('[{"a":"x","b":[{"c":"p","l":[1,2]}]},{"a":"y","b":[{"c":"q","l":[11]},{"c":"r","l":[]}]}]', '$[*]' COLUMNS (a VARCHAR(10) PATH '$.a', NESTED PATH '$.b[*]' COLUMNS (b VARCHAR(10) PATH '$.c', ord FOR ORDINALITY, NESTED PATH '$.l[*]' COLUMNS (l VARCHAR(10) PATH '$')))) AS jt
SELECT * FROM JSON_TABLE('[{"p":1,"x":[1,2],"y":[3]},{"p":2,"y":[4,5]},{"p":3,"x":[6]},{"p":4}]', '$[*]' COLUMNS (p INT PATH '$.p', NESTED PATH '$.x[*]' COLUMNS (x INT PATH '$'), NESTED PATH '$.y[*]' COLUMNS (y INT PATH '$', o FOR ORDINALITY))) t
SELECT * FROM JSON_TABLE(NULL, '$' COLUMNS (o FOR ORDINALITY)) t
SELECT COUNT(*) FROM JSON_TABLE('{"a":1}', '$.b' COLUMNS (o FOR ORDINALITY)) t
SELECT id, t.* FROM d, JSON_TABLE(j, '$[*]' COLUMNS (n FOR ORDINALITY, v VARCHAR(20) PATH '$')) AS t WHERE id < 5 ORDER BY id, n
SELECT id, v FROM d LEFT JOIN JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t ON v > 2 WHERE id < 5 ORDER BY id, v
SELECT id, a, x, e FROM d JOIN JSON_TABLE(j, '$[*]' COLUMNS (a VARCHAR(5) PATH '$.a' DEFAULT 'null' ON EMPTY, e INT EXISTS PATH '$.a', NESTED PATH '$.b[*]' COLUMNS (x INT PATH '$'))) t WHERE id = 5 AND e = 1 ORDER BY a, x
SELECT d.id, e.id, v FROM d JOIN JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t JOIN d e ON e.id = t.v WHERE d.id < 5 ORDER BY d.id, v
SELECT id, v FROM JSON_TABLE('[3,9]', '$[*]' COLUMNS (v INT PATH '$')) t LEFT JOIN d ON id = v ORDER BY v
SELECT id, v FROM d RIGHT JOIN JSON_TABLE('[3,9]', '$[*]' COLUMNS (v INT PATH '$')) t ON id = v ORDER BY v
SELECT id FROM d WHERE id IN (SELECT * FROM JSON_TABLE('[1,2]', '$[*]' COLUMNS (id INT PATH '$')) t) ORDER BY id
SELECT id, (SELECT SUM(v) FROM JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t) AS s FROM d WHERE id < 5 ORDER BY id
SELECT id FROM d WHERE id < 5 AND EXISTS (SELECT 1 FROM JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t WHERE v = d.id) ORDER BY id
SELECT q.id, q.v FROM (SELECT id, v FROM d, JSON_TABLE(j, '$[*]' COLUMNS (v INT PATH '$')) t WHERE id < 5) q WHERE q.v = 5
SELECT id, COUNT(v), MIN(v), MAX(v) FROM d LEFT JOIN JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t ON 1 WHERE id < 5 GROUP BY id ORDER BY id
SELECT v FROM JSON_TABLE('[1,2]', '$[*]' COLUMNS (v INT PATH '$')) a UNION SELECT v FROM JSON_TABLE('[2,3]', '$[*]' COLUMNS (v INT PATH '$')) b ORDER BY v
SELECT a.v, b.v FROM JSON_TABLE('[1,2,3]', '$[*]' COLUMNS (v INT PATH '$')) a JOIN JSON_TABLE('[3,2,5]', '$[*]' COLUMNS (v INT PATH '$')) b ON a.v <= b.v ORDER BY 1, 2
CREATE VIEW w AS SELECT d.id, v FROM d JOIN JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t WHERE d.id < 5
SELECT * FROM w ORDER BY id, v
UPDATE d, JSON_TABLE('[{"id":1,"x":"[7]"},{"id":3,"x":"[8,9]"}]', '$[*]' COLUMNS (id INT PATH '$.id', x TEXT PATH '$.x')) t SET d.j = t.x WHERE d.id = t.id
SELECT * FROM w ORDER BY id, v
DELETE d FROM d, JSON_TABLE(d.j, '$[*]' COLUMNS (v INT PATH '$')) t WHERE t.v = 8
INSERT INTO d SELECT n + 10, v FROM JSON_TABLE('["[1]","[2,3]"]', '$[*]' COLUMNS (n FOR ORDINALITY, v TEXT PATH '$')) t
SELECT id, j FROM d ORDER BY id
