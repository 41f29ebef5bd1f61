function must<T>(v: T | undefined): T {
  if (v === undefined) {
    throw new Error("must not be undefined");
  }
  return v;
}

must<number>(undefined);
