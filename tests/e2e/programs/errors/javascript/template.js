const a = 1;
const s = `abc ${a`;
