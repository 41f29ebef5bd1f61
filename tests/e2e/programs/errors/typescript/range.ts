enum Color { Red, Green }

const n: number = Color.Green;
(3.14159).toFixed(200 * n);
