type J = unknown;
const j: J = JSON.parse("{");
