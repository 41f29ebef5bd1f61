function f() {
  try { null.x; } catch (e) {
    throw new Error("outer", { cause: e });
  }
}
f();
