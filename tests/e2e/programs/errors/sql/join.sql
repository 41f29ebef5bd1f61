CREATE TABLE orders (id INT, total REAL);
SELECT o.id, c.name
FROM orders o
JOIN customers c ON c.id = o.cid;
