type T = string;

const x: T = await Promise.resolve("a");
throw new Error(x);
