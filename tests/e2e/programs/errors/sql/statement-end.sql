CREATE TABLE t (n INTEGER, s TEXT);
SELECT n
FROM t
WHERE s IN ('a', 'b'
  AND n > 1;
