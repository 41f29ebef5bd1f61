interface P { x: number }

const p: P = { x: 1 };
console.log(pp.x);
