CREATE TABLE users (
  id INTEGER,
  name TEXT
);
SELECT id,
       nmae,
       1
FROM users;
