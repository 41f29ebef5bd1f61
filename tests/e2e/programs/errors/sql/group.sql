CREATE TABLE t (a);
SELECT a FROM t WHERE count(a) > 1;
