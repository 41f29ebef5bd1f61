const n = -1;
const a = new Array(n);
