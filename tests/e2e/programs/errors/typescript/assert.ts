import assert from "assert";
const n: number = 1;
assert.equal(n, 2);
