interface A { n: number }
async function f(a: A): Promise<void> {
  throw new Error("n is " + a.n);
}
f({ n: 1 });
