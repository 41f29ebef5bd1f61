function f({ a, b }) { return a; }
f(null);
