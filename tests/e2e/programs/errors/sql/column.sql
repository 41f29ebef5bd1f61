CREATE TABLE people (id INTEGER, name TEXT);
SELECT nmae FROM people;
