const rows = [{ n: { v: 1 } }, {}];
const out = rows.map((r) => r.n.v);
